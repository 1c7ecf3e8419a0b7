-- Give a hold's units back before its deadline.
--
-- p_caller: as in lock_hold; a buyer may not release while the payment is under way.
-- Answers one row:
--   done         the hold's document: released now, released before (twice is one release), or expired
--   not-found, stale-fence, hold-paying (buyers only), hold-sold
-- Safe under races: judged on the locked row; a hold past its deadline ends as expired, whoever comes first.
CREATE OR REPLACE FUNCTION stock_verbs.release(p_sku integer, p_hold uuid, p_fence bigint, p_caller text)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_hold stock.holds;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    outcome := CASE
        WHEN v.refusal IS NOT NULL THEN v.refusal
        WHEN v_hold.state = 'sold' THEN 'hold-sold'
        WHEN v_hold.state = 'paying' AND p_caller NOT LIKE 'shop:%' THEN 'hold-paying'
        ELSE 'done'
    END;
    IF outcome = 'done' THEN
        IF v_hold.state IN ('held', 'paying') THEN
            PERFORM stock_verbs.finish(
                ARRAY[p_sku], ARRAY[p_hold],
                CASE WHEN stock_verbs.ended(v_hold, v.now) = 'hold-expired' THEN 'expired' ELSE 'released' END, p_caller, NULL);
            SELECT * INTO v_hold FROM stock.holds WHERE sku_id = p_sku AND id = p_hold;
        END IF;
        answer := stock_verbs.hold_document(v_hold, v.now);
    END IF;
    RETURN NEXT;
END $$;
