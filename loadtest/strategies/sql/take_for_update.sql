-- Take units as `for-update` does: lock the row, look, then write.
--
-- Parameters and answer as reserve_one says. Safe under races: what was read stays true until the transaction ends.
CREATE OR REPLACE FUNCTION stock_verbs.take_units(p_sku integer, p_quantity bigint, OUT shards integer[], OUT fence bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_counter stock.sub_counters;
BEGIN
    SELECT * INTO STRICT v_counter FROM stock.sub_counters WHERE sku_id = p_sku AND shard = 0 FOR UPDATE;
    IF v_counter.held + v_counter.sold + p_quantity > v_counter.total + v_counter.allowance THEN RETURN; END IF;
    shards := ARRAY[0];
    fence := v_counter.fence + 1;
    UPDATE stock.sub_counters AS counter SET held = v_counter.held + p_quantity, fence = v_counter.fence + 1
     WHERE counter.sku_id = p_sku AND counter.shard = 0;
END $$;
