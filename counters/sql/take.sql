-- Move one SKU's part of a granted cart from available to held. Shared by reserve_cart; never called from outside.
--
-- The caller holds the locks of all the SKU's sub-counters and of the seats, and knows that there is enough.
-- Units come from as few sub-counters as possible, fullest first, inactive ones too: nothing free is out of reach here. What
-- may be sold beyond the total comes last, and is marked.
CREATE OR REPLACE FUNCTION stock_verbs.take(
    p_sku integer, p_quantity bigint, p_seats text[], p_hold stock.holds, p_lead integer,
    p_buyer text, p_actor text, p_operation uuid
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_stock record;
    v_given record;
    v_part  record;
    v_seats bigint;
BEGIN
    IF p_seats IS NULL THEN
        SELECT * INTO v_stock FROM stock_verbs.tail_stock(p_sku, v_now);
        SELECT * INTO v_given FROM stock_verbs.tail_give(
            ARRAY['granted'], ARRAY[p_quantity], 0, v_stock.shards, v_stock.units, v_stock.beyond);
        INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, backordered, buyer)
        SELECT p_sku, p_hold.id, shard, p_lead, sum(units), sum(back), p_buyer
          FROM unnest(v_given.shards, v_given.units, v_given.backorders) AS taken (shard, units, back) GROUP BY shard;
        FOR v_part IN SELECT shard, quantity FROM stock.hold_parts WHERE sku_id = p_sku AND hold_id = p_hold.id ORDER BY shard LOOP
            INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor, at)
            VALUES (p_sku, p_operation, 'reserve', v_part.shard, v_part.quantity, p_hold.id, p_actor, v_now);
            UPDATE stock.sub_counters SET held = held + v_part.quantity, fence = p_hold.fence
             WHERE sku_id = p_sku AND shard = v_part.shard;
        END LOOP;
        RETURN;
    END IF;
    UPDATE stock.seats SET state = 'held', hold_id = p_hold.id, fence = p_hold.fence
     WHERE sku_id = p_sku AND seat = ANY (p_seats) AND state = 'available';
    GET DIAGNOSTICS v_seats = ROW_COUNT;
    IF v_seats <> p_quantity THEN
        RAISE EXCEPTION 'a seat of SKU % was taken under our lock', p_sku USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, seats, buyer)
    VALUES (p_sku, p_hold.id, -1, p_lead, p_quantity, p_seats, p_buyer);
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, held_delta, hold_id, actor, at)
    VALUES (p_sku, p_operation, 'reserve', -1, p_seats, 'held', p_quantity, p_hold.id, p_actor, v_now);
END $$;

-- How many of p_quantity units would be beyond the SKU's total. The caller holds the locks of its sub-counters.
CREATE OR REPLACE FUNCTION stock_verbs.beyond_total(p_sku integer, p_quantity bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(p_quantity - coalesce(sum(greatest(total - held - sold, 0)), 0), 0)::bigint
      FROM stock.sub_counters WHERE sku_id = p_sku
$$;
