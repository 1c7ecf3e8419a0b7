-- Turn a live hold into a sale.
--
-- p_caller: as in lock_hold. Answers one row:
--   done, replayed     the sale's document; confirming what is sold answers the same sale, whatever the key
--   key-reused, not-found, stale-fence, hold-expired, hold-released
-- A `held` hold past its deadline is never confirmed, swept or not; a `paying` one lives until the reconciler ends it.
-- Safe under races: the hold's row is locked first, the clock read after; UNIQUE a_hold_is_sold_once says the same.
CREATE OR REPLACE FUNCTION stock_verbs.confirm(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, p_slot uuid, p_fingerprint bytea, p_operation uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_hold stock.holds;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    outcome := coalesce(v.refusal, stock_verbs.ended(v_hold, v.now));
    IF outcome = 'hold-sold' THEN
        outcome := 'replayed';
        answer := stock_verbs.sale_document(p_sku, p_hold);
    ELSIF outcome IS NULL THEN
        PERFORM stock_verbs.finish(ARRAY[p_sku], ARRAY[p_hold], 'sold', p_caller, NULL, p_operation);
        outcome := 'done';
        answer := stock_verbs.sale_document(p_sku, p_hold);
        INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)
        VALUES (p_sku, p_slot, p_fingerprint, answer, p_operation, p_hold);
    END IF;
    RETURN NEXT;
END $$;

-- A sale as callers see it.
CREATE OR REPLACE FUNCTION stock_verbs.sale_document(p_sku integer, p_hold uuid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT json_build_object('id', sale.id, 'hold', hold.id, 'state', 'sold', 'fence', hold.fence,
                             'sold_at', stock_verbs.moment(sale.sold_at), 'lines', hold.lines)::text
      FROM stock.sales AS sale JOIN stock.holds AS hold ON hold.sku_id = sale.sku_id AND hold.id = sale.hold_id
     WHERE sale.sku_id = p_sku AND sale.hold_id = p_hold
$$;
