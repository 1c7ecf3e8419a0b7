-- Move one SKU's part of a granted cart from available to held. Shared by reserve_cart; never called from outside.
--
-- The caller holds the locks of all the SKU's sub-counters and of the seats, and knows that there is enough.
-- Units come from as few sub-counters as possible, fullest first, inactive ones too: nothing free is out of reach here.
CREATE OR REPLACE FUNCTION stock_verbs.take(
    p_sku integer, p_quantity bigint, p_seats text[], p_hold stock.holds, p_lead integer,
    p_buyer text, p_actor text, p_operation uuid
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_counter record;
    v_missing bigint := p_quantity;
    v_units   bigint;
BEGIN
    IF p_seats IS NOT NULL THEN
        UPDATE stock.seats SET state = 'held', hold_id = p_hold.id, fence = p_hold.fence
         WHERE sku_id = p_sku AND seat = ANY (p_seats) AND state = 'available';
        GET DIAGNOSTICS v_units = ROW_COUNT;
        IF v_units <> p_quantity THEN
            RAISE EXCEPTION 'a seat of SKU % was taken under our lock', p_sku USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, seats, buyer)
        VALUES (p_sku, p_hold.id, -1, p_lead, p_quantity, p_seats, p_buyer);
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, held_delta, hold_id, actor)
        VALUES (p_sku, p_operation, 'reserve', -1, p_seats, 'held', p_quantity, p_hold.id, p_actor);
        RETURN;
    END IF;
    FOR v_counter IN
        SELECT shard, total + allowance - held - sold AS free FROM stock.sub_counters
         WHERE sku_id = p_sku AND total + allowance - held - sold > 0 ORDER BY free DESC, shard
    LOOP
        EXIT WHEN v_missing = 0;
        v_units := least(v_missing, v_counter.free);
        v_missing := v_missing - v_units;
        UPDATE stock.sub_counters SET held = held + v_units, fence = p_hold.fence
         WHERE sku_id = p_sku AND shard = v_counter.shard;
        INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, buyer)
        VALUES (p_sku, p_hold.id, v_counter.shard, p_lead, v_units, p_buyer);
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor)
        VALUES (p_sku, p_operation, 'reserve', v_counter.shard, v_units, p_hold.id, p_actor);
    END LOOP;
    IF v_missing > 0 THEN
        RAISE EXCEPTION 'units of SKU % were taken under our locks', p_sku USING ERRCODE = 'integrity_constraint_violation';
    END IF;
END $$;
