-- Reserve units of one fungible SKU from one sub-counter: the one conditional decrement that grants.
--
-- p_sku, p_hold (UUIDv7 that ends with p_sku), p_key_hash (picks the sub-counter), p_quantity >= 1, p_lines (as asked),
-- p_room (of the live pass, or null), p_actor (who asks), p_owner (the pass's room:ticket),
-- p_buyer (whom limits count), p_scope + p_key + p_fingerprint (idempotency), p_operation.
-- Answers one row:
--   granted, replayed   the hold's document
--   key-reused          the key had an effect under another body
--   not-on-sale, other-room
--   tail                this sub-counter cannot serve it (or a buyer's limit must be counted): reserve_tail decides
-- It never refuses for lack of stock.
-- Safe under races: the decrement takes units only where they are, in one UPDATE that locks the row until commit; the
-- CHECK sub_counter_never_oversold says the same. Duplicates of a key meet on the same row; one that still slips past
-- (it named another SKU) loses the key's unique index, undoes its own decrement in this same
-- transaction and reads the winner's answer in a later statement, which a VOLATILE function sees at READ COMMITTED.
CREATE OR REPLACE FUNCTION stock_verbs.reserve(
    p_sku integer, p_hold uuid, p_key_hash bigint, p_quantity bigint, p_lines json, p_room text, p_actor text,
    p_owner text, p_buyer text, p_scope text, p_key text, p_fingerprint bytea, p_operation uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku     stock.skus;
    v_shard   integer;
    v_hold    stock.holds;
    v_now     timestamptz := clock_timestamp();
    v_refusal text;
BEGIN
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_scope, p_key, p_fingerprint);
    IF FOUND THEN RETURN; END IF;

    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku;
    v_refusal := stock_verbs.sale_refusal(v_sku, p_room, v_now);
    IF v_refusal IS NOT NULL THEN
        -- Once more: a duplicate may have had its effect just before the sale was halted.
        RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_scope, p_key, p_fingerprint);
        IF NOT FOUND THEN
            RETURN QUERY SELECT v_refusal, NULL::text;
        END IF;
        RETURN;
    END IF;
    IF v_sku.buyer_max IS NOT NULL THEN
        RETURN QUERY SELECT 'tail', NULL::text;
        RETURN;
    END IF;

    v_shard := p_key_hash % v_sku.shards;
    UPDATE stock.sub_counters
       SET held = held + p_quantity, fence = fence + 1
     WHERE sku_id = p_sku AND shard = v_shard AND active AND total + allowance - held - sold >= p_quantity
    RETURNING fence INTO v_hold.fence;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'tail', NULL::text;
        RETURN;
    END IF;

    v_now := clock_timestamp();
    v_hold.sku_id := p_sku;
    v_hold.id := p_hold;
    v_hold.state := 'held';
    v_hold.expires_at := v_now + make_interval(secs => v_sku.hold_seconds);
    v_hold.lines := p_lines;
    INSERT INTO stock.idempotency (sku_id, scope, key, fingerprint, answer, operation_id, hold_id)
    VALUES (p_sku, p_scope, p_key, p_fingerprint, stock_verbs.hold_document(v_hold, v_now), p_operation, p_hold)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        UPDATE stock.sub_counters SET held = held - p_quantity WHERE sku_id = p_sku AND shard = v_shard;
        RETURN QUERY SELECT * FROM stock_verbs.recorded_first(p_sku, p_scope, p_key, p_fingerprint);
        RETURN;
    END IF;
    INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, owner, buyer, lines, created_at)
    VALUES (p_sku, p_hold, v_hold.fence, v_hold.expires_at, p_actor, p_owner, p_buyer, p_lines, v_now);
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, buyer)
    VALUES (p_sku, p_hold, v_shard, p_sku, p_quantity, p_buyer);
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor)
    VALUES (p_sku, p_operation, 'reserve', v_shard, p_quantity, p_hold, p_actor);
    RETURN QUERY SELECT 'granted', stock_verbs.hold_document(v_hold, v_now);
END $$;
