-- Even out the free units, and the unused allowance, of a SKU's sub-counters, in one transaction.
--
-- p_sku: a fungible SKU. Each active sub-counter ends within one unit of an equal share of what is free; inactive ones
-- are emptied. Answers one row: how many units moved (0 when none is more than p_tolerance units off its share, and no
-- inactive one has any).
-- Safe under races: a first look without locks spares a level SKU; then all sub-counters are locked ascending, so no grant
-- meets a half-made move. Totals move between rows and their sum stays, and so do allowances; the ledger has both sides
-- under one operation.
CREATE OR REPLACE FUNCTION stock_verbs.rebalance(p_sku integer, p_tolerance bigint, p_actor text, p_operation uuid)
RETURNS TABLE (moved bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    moved := 0;
    IF NOT stock_verbs.uneven(p_sku, p_tolerance) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku ORDER BY shard FOR NO KEY UPDATE;
    IF stock_verbs.uneven(p_sku, p_tolerance) THEN
        SELECT stock_verbs.spread(p_sku, sum(total)::bigint, sum(allowance)::bigint, 'rebalance', p_actor, p_operation)
          INTO moved FROM stock.sub_counters WHERE sku_id = p_sku;
    END IF;
    RETURN NEXT;
END $$;

-- Whether an active sub-counter is more than p_tolerance off an equal share of the free units or of the unused allowance, or
-- an inactive one has any.
CREATE OR REPLACE FUNCTION stock_verbs.uneven(p_sku integer, p_tolerance bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_or(off), false) FROM (
        SELECT max(free) FILTER (WHERE active) - floor(sum(free) / nullif(count(*) FILTER (WHERE active), 0)) > p_tolerance + 1
            OR ceil(sum(free) / nullif(count(*) FILTER (WHERE active), 0)) - min(free) FILTER (WHERE active) > p_tolerance + 1
            OR max(free) FILTER (WHERE NOT active) > 0 AS off
          FROM stock.sub_counters
         CROSS JOIN LATERAL (VALUES
               ('units', greatest(total - held - sold, 0)),
               ('allowance', allowance - greatest(held + sold - total, 0))) AS kind (name, free)
         WHERE sku_id = p_sku GROUP BY kind.name) AS levels
$$;
