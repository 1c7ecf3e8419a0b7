-- Take units as `cas-row` does: one row, one conditional UPDATE.
--
-- Parameters and answer as reserve_one says. Safe under races: the UPDATE judges the row as the last one before it left it;
-- everybody waits for the row in turn, until the one before has committed.
CREATE OR REPLACE FUNCTION stock_verbs.take_units(p_sku integer, p_quantity bigint, OUT shards integer[], OUT fence bigint)
LANGUAGE sql VOLATILE AS $$
    UPDATE stock.sub_counters AS counter SET held = counter.held + p_quantity, fence = counter.fence + 1
     WHERE counter.sku_id = p_sku AND counter.shard = 0
       AND counter.held + counter.sold + p_quantity <= counter.total + counter.allowance
    RETURNING ARRAY[counter.shard], counter.fence
$$;
