-- Cancel a sale: its units come back to stock.
--
-- p_sku, p_sale: the sale, whose id names the SKU. p_caller: 'shop:client', as in refusal. Answers one row:
--   done         the sale's document, cancelled; cancelling twice is one cancel, with the first one's reason
--   not-found    there is no such sale, or its hold is another shop's
-- A cancelled sale counts for no limit; its hold stays ended for good. Safe under races: the hold's row is locked before the sale
-- is judged, then sub-counters and seats, ascending; the moment is read after the hold's lock.
CREATE OR REPLACE FUNCTION stock_verbs.cancel(p_sku integer, p_sale uuid, p_caller text, p_reason text, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_id   uuid := (SELECT sale.hold_id FROM stock.sales AS sale WHERE sale.sku_id = p_sku AND sale.id = p_sale);
    v      record;
    v_part record;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, v_id, NULL, p_caller);
    outcome := coalesce(v.refusal, 'done');
    IF outcome = 'done' AND (v.hold).state = 'sold' THEN
        PERFORM stock_verbs.lock_parts(ARRAY[p_sku], ARRAY[v_id]);
        UPDATE stock.sales SET cancelled_at = v.now, cancelled_by = p_caller, cancel_reason = p_reason
         WHERE sku_id = p_sku AND id = p_sale;
        UPDATE stock.holds SET state = 'cancelled' WHERE sku_id = p_sku AND id = v_id;
        UPDATE stock.seats SET state = 'available', hold_id = NULL WHERE hold_id = v_id;
        FOR v_part IN SELECT * FROM stock.hold_parts WHERE hold_id = v_id ORDER BY sku_id, shard LOOP
            UPDATE stock.sub_counters SET sold = sold - v_part.quantity
             WHERE sku_id = v_part.sku_id AND shard = v_part.shard;
            INSERT INTO stock.ledger (
                sku_id, operation_id, verb, shard, seats, seat_state, sold_delta, hold_id, actor, reason, at)
            VALUES (v_part.sku_id, p_operation, 'cancel', v_part.shard, v_part.seats,
                    CASE WHEN v_part.seats IS NOT NULL THEN 'available' END, -v_part.quantity, v_id, p_caller, p_reason, v.now);
        END LOOP;
    END IF;
    IF outcome = 'done' THEN
        answer := stock_verbs.sale_document(p_sku, v_id);
    END IF;
    RETURN NEXT;
END $$;
