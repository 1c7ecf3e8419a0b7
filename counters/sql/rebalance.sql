-- Even out the free units of a SKU's sub-counters, in one transaction.
--
-- p_sku: a fungible SKU. Each active sub-counter ends within one unit of an equal share of what is free; inactive ones
-- are emptied. Answers one row: how many units moved (0 when no sub-counter is more than p_tolerance units off).
-- Safe under races: all sub-counters are locked ascending, so no grant meets a half-made move; totals move between rows
-- and their sum stays; both sides of each move are in the ledger under one operation.
CREATE OR REPLACE FUNCTION stock_verbs.rebalance(p_sku integer, p_tolerance bigint, p_operation uuid)
RETURNS TABLE (moved bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku ORDER BY shard FOR NO KEY UPDATE;
    WITH level AS (
        SELECT shard, active, total + allowance - held - sold AS free,
               row_number() OVER (PARTITION BY active ORDER BY shard) AS place,
               count(*) FILTER (WHERE active) OVER () AS actives,
               sum(total + allowance - held - sold) OVER () AS all_free
          FROM stock.sub_counters WHERE sku_id = p_sku
    ), share AS (
        SELECT shard, free, CASE WHEN active THEN (all_free / actives)::bigint + CASE WHEN place <= all_free % actives THEN 1 ELSE 0 END ELSE 0 END AS fair
          FROM level
    ), change AS (
        SELECT shard, fair - free AS delta FROM share
         WHERE fair <> free AND EXISTS (SELECT 1 FROM share WHERE abs(fair - free) > p_tolerance)
    ), applied AS (
        UPDATE stock.sub_counters AS counter SET total = counter.total + change.delta
          FROM change WHERE counter.sku_id = p_sku AND counter.shard = change.shard
        RETURNING counter.shard, change.delta
    ), written AS (
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, total_delta, actor)
        SELECT p_sku, p_operation, 'rebalance', shard, delta, 'reconciler' FROM applied ORDER BY shard
        RETURNING total_delta
    )
    SELECT coalesce(sum(total_delta) FILTER (WHERE total_delta > 0), 0) INTO moved FROM written;
    RETURN NEXT;
END $$;
