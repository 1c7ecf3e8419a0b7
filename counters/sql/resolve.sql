-- End a hold that waits for its payment, by what the payment provider or a person says.
--
-- p_outcome: 'paid' sells it, 'unpaid' releases it, 'unknown' marks it as stuck so that a person sees it.
-- p_overdue: act only when the payment's deadline has passed (the reconciler), or at any time (a person). p_sale: the id of
-- the sale, should it be one.
-- Answers one row:
--   done              the sale's document (paid) or the hold's; repeating gives the same
--   not-found, hold-not-paying (it ended otherwise, or its deadline has not passed)
-- Safe under races: judged on the locked row, so a confirm or release of the shop's that came first stands.
CREATE OR REPLACE FUNCTION stock_verbs.resolve(
    p_sku integer, p_hold uuid, p_outcome text, p_overdue boolean, p_actor text, p_reason text, p_sale uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_hold stock.holds;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, NULL, NULL);
    v_hold := v.hold;
    outcome := 'done';
    IF v.refusal IS NOT NULL THEN
        outcome := v.refusal;
    ELSIF v_hold.state = 'sold' AND p_outcome = 'paid' THEN
        answer := stock_verbs.sale_document(p_sku, p_hold);
    ELSIF v_hold.state = 'released' AND p_outcome = 'unpaid' THEN
        answer := stock_verbs.hold_document(v_hold, v.now);
    ELSIF v_hold.state <> 'paying' OR p_overdue AND v_hold.paying_until > v.now THEN
        outcome := 'hold-not-paying';
    ELSIF p_outcome = 'paid' THEN
        PERFORM stock_verbs.lock_parts(ARRAY[p_sku], ARRAY[p_hold]);
        PERFORM stock_verbs.finish(
            ARRAY[p_sku], ARRAY[p_hold], 'sold', ARRAY[p_actor], p_reason, NULL, v.now, ARRAY[p_sale], ARRAY[v_hold.quantity]);
        answer := stock_verbs.sale_document(p_sku, p_hold);
    ELSIF p_outcome = 'unpaid' THEN
        PERFORM stock_verbs.lock_parts(ARRAY[p_sku], ARRAY[p_hold]);
        PERFORM stock_verbs.finish(ARRAY[p_sku], ARRAY[p_hold], 'released', ARRAY[p_actor], p_reason);
        SELECT * INTO v_hold FROM stock.holds WHERE sku_id = p_sku AND id = p_hold;
        answer := stock_verbs.hold_document(v_hold, v.now);
    ELSE
        UPDATE stock.holds SET stuck_since = coalesce(stuck_since, v.now)
         WHERE sku_id = p_sku AND id = p_hold RETURNING * INTO v_hold;
        answer := stock_verbs.hold_document(v_hold, v.now);
    END IF;
    RETURN NEXT;
END $$;
