-- Say that a hold's payment has started: it no longer expires by itself, until its own deadline.
--
-- p_caller: as in lock_hold. p_until: the deadline asked for, or null for the longest. Answers one row:
--   done               the hold's document; repeating never moves the deadline past the first start + payment_seconds_max
--   not-found, stale-fence, hold-expired, hold-released, hold-sold
-- Safe under races: judged on the locked row by the clock read after the lock (I4).
CREATE OR REPLACE FUNCTION stock_verbs.start_payment(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, p_until timestamptz
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_hold stock.holds;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    outcome := coalesce(v.refusal, stock_verbs.ended(v_hold, v.now));
    IF outcome IS NULL THEN
        UPDATE stock.holds AS hold
           SET state = 'paying',
               paying_started_at = coalesce(hold.paying_started_at, v.now),
               paying_until = greatest(v.now, least(
                   p_until, coalesce(hold.paying_started_at, v.now) + make_interval(secs => rules.payment_seconds_max)))
          FROM stock_verbs.hold_rules(p_hold) AS rules
         WHERE hold.sku_id = p_sku AND hold.id = p_hold
        RETURNING hold.* INTO v_hold;
        outcome := 'done';
        answer := stock_verbs.hold_document(v_hold, v.now);
    END IF;
    RETURN NEXT;
END $$;

-- How a hold has ended at p_now, as a refusal: hold-expired, hold-released, hold-sold; null while it lives.
CREATE OR REPLACE FUNCTION stock_verbs.ended(p_hold stock.holds, p_now timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_hold.state = 'expired' OR p_hold.state = 'held' AND p_hold.expires_at <= p_now THEN 'hold-expired'
        WHEN p_hold.state IN ('released', 'cancelled') THEN 'hold-released'
        WHEN p_hold.state = 'sold' THEN 'hold-sold'
    END
$$;
