-- Take units as `skip-locked` does: one row a unit; any that are free and not locked by somebody else, in no order.
--
-- Parameters and answer as reserve_one says. Safe under races against selling twice: a row is taken under its lock. NOT safe
-- against a false sold-out: a unit that somebody has locked and then leaves is passed over as if it were gone.
CREATE INDEX units_free ON stock.sub_counters (sku_id) WHERE held + sold < total + allowance;

CREATE OR REPLACE FUNCTION stock_verbs.take_units(p_sku integer, p_quantity bigint, OUT shards integer[], OUT fence bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT array_agg(unit.shard), max(unit.fence) + 1 INTO shards, fence
      FROM (SELECT counter.shard, counter.fence FROM stock.sub_counters AS counter
             WHERE counter.sku_id = p_sku AND counter.held + counter.sold < counter.total + counter.allowance
             LIMIT p_quantity FOR UPDATE SKIP LOCKED) AS unit;
    IF cardinality(shards) IS DISTINCT FROM p_quantity::integer THEN
        shards := NULL;
        RETURN;
    END IF;
    UPDATE stock.sub_counters AS counter SET held = counter.held + 1, fence = take_units.fence
     WHERE counter.sku_id = p_sku AND counter.shard = ANY (shards);
END $$;
