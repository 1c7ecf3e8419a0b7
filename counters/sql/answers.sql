-- What the verbs share: how a moment, a hold and a recorded answer are written. No verb of its own; nothing is moved here.

-- RFC 3339 in UTC with milliseconds.
CREATE OR REPLACE FUNCTION stock_verbs.moment(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- A hold as callers see it: backordered units are told where there are any.
CREATE OR REPLACE FUNCTION stock_verbs.document(
    p_id uuid, p_fence bigint, p_state text, p_until timestamptz, p_backordered bigint, p_lines text
) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT '{"id": "' || p_id || '", "fence": ' || p_fence || ', "state": "' || p_state
        || '", "expires_at": "' || stock_verbs.moment(p_until) || '"'
        || CASE WHEN p_backordered > 0 THEN ', "backordered": ' || p_backordered ELSE '' END
        || ', "lines": ' || p_lines || '}'
$$;

-- The document of a hold at p_now: one past its deadline reads as expired, swept or not.
CREATE OR REPLACE FUNCTION stock_verbs.hold_document(p_hold stock.holds, p_now timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT stock_verbs.document(
        p_hold.id, p_hold.fence,
        CASE WHEN p_hold.state = 'held' AND p_hold.expires_at <= p_now THEN 'expired' ELSE p_hold.state END,
        CASE WHEN p_hold.state = 'paying' THEN p_hold.paying_until ELSE p_hold.expires_at END,
        p_hold.backordered, p_hold.lines::text)
$$;

-- What a key's record says to whoever asks now: 'replayed', 'key-reused' for another body, 'done' where it is the asker's own
-- operation, whose answer was lost on its way, or null where there is none.
CREATE OR REPLACE FUNCTION stock_verbs.recorded_as(p_record stock.idempotency, p_fingerprint bytea, p_operation uuid) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (p_record).slot IS NULL THEN NULL
                WHEN (p_record).fingerprint <> p_fingerprint THEN 'key-reused'
                WHEN (p_record).operation_id = p_operation THEN 'done' ELSE 'replayed' END
$$;

-- The first answer to a key, as recorded_as says, or no row for a key that is new to this SKU. VOLATILE, so that a loser's
-- second look sees what the winner has committed.
CREATE OR REPLACE FUNCTION stock_verbs.recorded(p_sku integer, p_slot uuid, p_fingerprint bytea, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE sql VOLATILE AS $$
    SELECT stock_verbs.recorded_as(record, p_fingerprint, p_operation),
           CASE WHEN record.fingerprint = p_fingerprint THEN record.answer END
      FROM stock.idempotency AS record
     WHERE record.slot = p_slot AND record.sku_id = p_sku
$$;

-- What the loser of a race for a key hears: the winner's answer, or key-reused where the winner's body led with another SKU.
CREATE OR REPLACE FUNCTION stock_verbs.recorded_first(p_sku integer, p_slot uuid, p_fingerprint bytea, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'key-reused', NULL::text;
    END IF;
END $$;

-- The rules for a hold: where its SKUs differ, the strictest. Seconds, but for extensions_max.
CREATE OR REPLACE FUNCTION stock_verbs.hold_rules(
    p_hold uuid,
    OUT hold_seconds integer, OUT hold_seconds_max integer, OUT extensions_max integer, OUT payment_seconds_max integer
) LANGUAGE sql STABLE AS $$
    SELECT min(sku.hold_seconds), min(sku.hold_seconds_max), min(sku.extensions_max), min(sku.payment_seconds_max)
      FROM stock.skus AS sku
     WHERE sku.id IN (SELECT part.sku_id FROM stock.hold_parts AS part WHERE part.hold_id = p_hold)
$$;

-- Why a SKU cannot be reserved now, whatever its stock: 'not-on-sale', 'other-room', or null.
CREATE OR REPLACE FUNCTION stock_verbs.sale_refusal(p_sku stock.skus, p_room text, p_now timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_sku.room IS NOT NULL AND p_sku.room IS DISTINCT FROM p_room THEN 'other-room'
        WHEN p_sku.state <> 'on_sale' OR p_now < p_sku.on_sale_at OR p_now >= p_sku.off_sale_at THEN 'not-on-sale'
    END
$$;
