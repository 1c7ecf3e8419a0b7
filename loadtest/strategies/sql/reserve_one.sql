-- Reserve units of one fungible SKU for one member: what every comparison strategy does, around its own take_units.
--
-- Parameters as in reserve, one member's, without limits and rooms. take_units(p_sku, p_quantity) answers shards (those that
-- gave, equally many units each; null when it found too few) and the hold's fence. Answers one row:
--   granted, replayed, done, key-reused   as in reserve
--   sold-out                              take_units found too few, whether or not that is so
-- Safe under races: only as far as take_units is. Of two with one key the second gives its units back and reads the first's answer.
CREATE OR REPLACE FUNCTION stock_verbs.reserve_one(
    p_sku integer, p_hold uuid, p_slot uuid, p_fingerprint bytea, p_quantity bigint, p_lines text, p_actor text, p_operation uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_taken record;
    v_units bigint;
    v_now   timestamptz;
    v_hold  stock.holds;
BEGIN
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    SELECT * INTO v_taken FROM stock_verbs.take_units(p_sku, p_quantity);
    IF v_taken.shards IS NULL THEN
        RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'sold-out', NULL::text;
        END IF;
        RETURN;
    END IF;
    v_units := p_quantity / cardinality(v_taken.shards);
    v_now := clock_timestamp();
    v_hold.id := p_hold;
    v_hold.fence := v_taken.fence;
    v_hold.state := 'held';
    v_hold.expires_at := v_now + make_interval(secs => (SELECT hold_seconds FROM stock.skus WHERE id = p_sku));
    v_hold.lines := p_lines::json;
    v_hold.backordered := 0;
    INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id, created_at)
    VALUES (p_sku, p_slot, p_fingerprint, stock_verbs.hold_document(v_hold, v_now), p_operation, p_hold, v_now)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        UPDATE stock.sub_counters SET held = held - v_units WHERE sku_id = p_sku AND shard = ANY (v_taken.shards);
        RETURN QUERY SELECT * FROM stock_verbs.recorded_first(p_sku, p_slot, p_fingerprint, p_operation);
        RETURN;
    END IF;
    INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, owner, buyer, lines, quantity, created_at)
    VALUES (p_sku, p_hold, v_hold.fence, v_hold.expires_at, p_actor, p_actor, p_actor, v_hold.lines, p_quantity, v_now);
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, buyer)
    SELECT p_sku, p_hold, shard, p_sku, v_units, p_actor FROM unnest(v_taken.shards) AS shard;
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor, at)
    SELECT p_sku, p_operation, 'reserve', shard, v_units, p_hold, p_actor, v_now FROM unnest(v_taken.shards) AS shard;
    RETURN QUERY SELECT 'granted', stock_verbs.hold_document(v_hold, v_now);
END $$;
