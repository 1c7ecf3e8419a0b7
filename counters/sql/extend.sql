-- Move a held hold's deadline further away.
--
-- p_seconds: from now, or null for hold_seconds. The deadline never moves nearer, and never past creation +
-- hold_seconds_max; in a cart the strictest SKU's rules hold. p_caller: as in lock_hold. Answers one row:
--   done         the hold's document
--   extension-limit (extensions_max reached, or the deadline is at its furthest)
--   not-found, stale-fence, hold-paying, hold-expired, hold-released, hold-sold
-- Safe under races: judged on the locked row by the clock read after the lock (I4).
CREATE OR REPLACE FUNCTION stock_verbs.extend(p_sku integer, p_hold uuid, p_fence bigint, p_caller text, p_seconds integer)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_hold stock.holds;
    v_rules record;
    v_deadline timestamptz;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    SELECT * INTO v_rules FROM stock_verbs.hold_rules(p_hold);
    v_deadline := least(v.now + make_interval(secs => coalesce(p_seconds, v_rules.hold_seconds)),
                        v_hold.created_at + make_interval(secs => v_rules.hold_seconds_max));
    outcome := CASE
        WHEN v.refusal IS NOT NULL THEN v.refusal
        WHEN v_hold.state = 'paying' THEN 'hold-paying'
        WHEN stock_verbs.ended(v_hold, v.now) IS NOT NULL THEN stock_verbs.ended(v_hold, v.now)
        WHEN v_hold.extensions >= v_rules.extensions_max OR v_deadline <= v_hold.expires_at THEN 'extension-limit'
        ELSE 'done'
    END;
    IF outcome = 'done' THEN
        UPDATE stock.holds SET expires_at = v_deadline, extensions = extensions + 1
         WHERE sku_id = p_sku AND id = p_hold RETURNING * INTO v_hold;
        answer := stock_verbs.hold_document(v_hold, v.now);
    END IF;
    RETURN NEXT;
END $$;
