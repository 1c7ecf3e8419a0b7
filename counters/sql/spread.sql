-- Share a fungible SKU's units and its allowance out over its sub-counters. Shared by create_sku, restock and rebalance;
-- never called from outside.
--
-- p_total, p_allowance: what they are to sum to; the caller has locked all the SKU's sub-counters, ascending, and knows that
-- held + sold fit into both together. Each active one ends with an equal share of the free units and an equal share of the
-- unused allowance (both within one), an inactive one with none; held and sold stay as they are. Where more is given than
-- p_total, the sub-counters that gave it keep as much allowance as it takes: an allowance lends to its own row only.
-- p_verb, p_actor, p_operation, p_source, p_reason, p_at: for the ledger, which gets a row for each sub-counter that changed.
-- Answers how many units rows gained. Whole numbers throughout: a share that is rounded would make units or lose them.
CREATE OR REPLACE FUNCTION stock_verbs.spread(
    p_sku integer, p_total bigint, p_allowance bigint, p_verb text, p_actor text, p_operation uuid,
    p_source text DEFAULT NULL, p_reason text DEFAULT NULL, p_at timestamptz DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_some    boolean;  -- whether any is active: where none is, all share
    v_actives bigint;
    v_given   bigint;
    v_lent    bigint;  -- what is given beyond the total
    v_gained  bigint;
BEGIN
    SELECT bool_or(active), count(*) FILTER (WHERE active), sum(held + sold), greatest(sum(held + sold) - p_total, 0)
      INTO v_some, v_actives, v_given, v_lent FROM stock.sub_counters WHERE sku_id = p_sku;
    IF NOT v_some THEN
        v_actives := (SELECT count(*) FROM stock.sub_counters WHERE sku_id = p_sku);
    END IF;
    WITH place AS MATERIALIZED (
        SELECT shard, total, allowance, held + sold AS given,
               least(beyond, greatest(v_lent - (sum(beyond) OVER (ORDER BY shard) - beyond), 0))::bigint AS lent,
               CASE WHEN active OR NOT v_some THEN row_number() OVER (PARTITION BY active ORDER BY shard) END AS place
          FROM stock.sub_counters CROSS JOIN LATERAL (SELECT greatest(held + sold - total, 0) AS beyond) AS own
         WHERE sku_id = p_sku
    ), change AS MATERIALIZED (
        SELECT shard, given - lent + stock_verbs.share(p_total + v_lent - v_given, v_actives, place) - total AS units,
               lent + stock_verbs.share(p_allowance - v_lent, v_actives, place) - allowance AS allowed
          FROM place
    ), changed AS (
        UPDATE stock.sub_counters AS counter
           SET total = counter.total + change.units, allowance = counter.allowance + change.allowed
          FROM change
         WHERE counter.sku_id = p_sku AND counter.shard = change.shard AND (change.units <> 0 OR change.allowed <> 0)
        RETURNING counter.shard, change.units, change.allowed
    ), written AS (
        INSERT INTO stock.ledger (
            sku_id, operation_id, verb, shard, total_delta, allowance_delta, actor, source, reason, occurred_at)
        SELECT p_sku, p_operation, p_verb, shard, units, allowed, p_actor, p_source, p_reason, p_at
          FROM changed ORDER BY shard
        RETURNING greatest(total_delta, 0) + greatest(allowance_delta, 0) AS gained
    )
    SELECT coalesce(sum(gained), 0) INTO v_gained FROM written;
    RETURN v_gained;
END $$;

-- The share of the sub-counter at p_place (from 1; null for an inactive one, which gets none) of p_units over p_places.
CREATE OR REPLACE FUNCTION stock_verbs.share(p_units bigint, p_places bigint, p_place bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_place IS NULL THEN 0
                ELSE p_units / p_places + CASE WHEN p_place <= p_units % p_places THEN 1 ELSE 0 END END
$$;
