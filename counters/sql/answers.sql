-- What the verbs share: how a moment, a hold and a recorded answer are written. No verb of its own; nothing is moved here.

-- RFC 3339 in UTC with milliseconds.
CREATE OR REPLACE FUNCTION stock_verbs.moment(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- A hold as callers see it at p_now: one past its deadline reads as expired, swept or not.
CREATE OR REPLACE FUNCTION stock_verbs.hold_document(p_hold stock.holds, p_now timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'id', p_hold.id,
        'fence', p_hold.fence,
        'state', CASE WHEN p_hold.state = 'held' AND p_hold.expires_at <= p_now THEN 'expired' ELSE p_hold.state END,
        'expires_at', stock_verbs.moment(CASE WHEN p_hold.state = 'paying' THEN p_hold.paying_until ELSE p_hold.expires_at END),
        'lines', p_hold.lines)::text
$$;

-- The first answer to a key: ('replayed', answer), ('key-reused', null) for another body, or no row for a key that is new to
-- this SKU. VOLATILE, so that a loser's second look sees what the winner has committed.
CREATE OR REPLACE FUNCTION stock_verbs.recorded(p_sku integer, p_scope text, p_key text, p_fingerprint bytea)
RETURNS TABLE (outcome text, answer text) LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN record.fingerprint = p_fingerprint THEN 'replayed' ELSE 'key-reused' END,
           CASE WHEN record.fingerprint = p_fingerprint THEN record.answer END
      FROM stock.idempotency AS record
     WHERE record.sku_id = p_sku AND record.scope = p_scope AND record.key = p_key
$$;

-- What the loser of a race for a key hears: the winner's answer, or key-reused where the winner's body led with another SKU.
CREATE OR REPLACE FUNCTION stock_verbs.recorded_first(p_sku integer, p_scope text, p_key text, p_fingerprint bytea)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_scope, p_key, p_fingerprint);
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
