-- Share free units out over a fungible SKU's sub-counters. Shared by create_sku, restate and rebalance; never called
-- from outside.
--
-- p_free: how many units are to be free in all; the caller has locked all the SKU's sub-counters, ascending. Each active one
-- ends with an equal share (within one unit), an inactive one with none; held and sold stay as they are. p_verb, p_actor and
-- p_operation: for the ledger, which gets a row for each sub-counter that changed. Answers how many units rows gained.
-- Whole numbers throughout: a share that is rounded would make units or lose them.
CREATE OR REPLACE FUNCTION stock_verbs.spread(p_sku integer, p_free bigint, p_verb text, p_actor text, p_operation uuid)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_actives bigint := (SELECT count(*) FROM stock.sub_counters WHERE sku_id = p_sku AND active);
    v_gained  bigint;
BEGIN
    WITH place AS (
        SELECT shard, active, total + allowance - held - sold AS free,
               row_number() OVER (PARTITION BY active ORDER BY shard) AS place
          FROM stock.sub_counters WHERE sku_id = p_sku
    ), change AS (
        SELECT shard, delta FROM (
            SELECT shard, CASE WHEN active
                          THEN p_free / v_actives + CASE WHEN place <= p_free % v_actives THEN 1 ELSE 0 END
                          ELSE 0 END - free AS delta
              FROM place) AS share
         WHERE delta <> 0
    ), changed AS (
        UPDATE stock.sub_counters AS counter SET total = counter.total + change.delta
          FROM change WHERE counter.sku_id = p_sku AND counter.shard = change.shard
        RETURNING counter.shard, change.delta
    ), written AS (
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, total_delta, actor)
        SELECT p_sku, p_operation, p_verb, shard, delta, p_actor FROM changed ORDER BY shard
        RETURNING total_delta
    )
    SELECT coalesce(sum(total_delta) FILTER (WHERE total_delta > 0), 0) INTO v_gained FROM written;
    RETURN v_gained;
END $$;
