-- End holds that are past their deadline and give their units back.
--
-- p_sku: only holds with units of that SKU, or null for all. p_limit: look at no more than so many. p_skip: pass over rows that
-- somebody else has locked (the sweep) or wait for them (the tail's reclaim, which must not miss any).
-- p_actor: for the ledger. p_after_at, p_after: where p_sku is null, the deadline and id of the last hold that was looked at
-- before, to go on behind it; null to begin. Answers one row: how many holds ended, and how many units came back; of those seen, how many were passed over
-- as locked, and how many are `torn`: drift keeps them from ending (their sub-counter says that less is held); they stay due
-- for the repair, and harm no other. seen = p_limit: there may be more, behind (last_at, last_id).
-- Safe under races: the holds' rows are locked in ascending order before anything else, and judged again as they are then; a
-- confirm or extend that came first has changed the row, and it is left alone. The clock is read once, before: what was due
-- then is due for good. Read for each row, it would keep the index on deadlines from being used.
CREATE OR REPLACE FUNCTION stock_verbs.expire_due(
    p_sku integer, p_limit integer, p_skip boolean, p_actor text, p_after_at timestamptz DEFAULT NULL, p_after uuid DEFAULT NULL
) RETURNS TABLE (
    holds integer, units bigint, locked integer, torn integer, seen integer, last_at timestamptz, last_id uuid
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids  uuid[];
    v_skus integer[];
    v_now  timestamptz := clock_timestamp();
    v_none uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    IF p_sku IS NULL THEN
        SELECT array_agg(id ORDER BY expires_at, id), max(expires_at) INTO v_ids, last_at FROM (
            SELECT hold.id, hold.expires_at FROM stock.holds AS hold
             WHERE hold.state = 'held' AND hold.expires_at <= v_now
               AND (hold.expires_at, hold.id) > (coalesce(p_after_at, '-infinity'), coalesce(p_after, v_none))
             ORDER BY hold.expires_at, hold.id LIMIT p_limit) AS due;
    ELSE
        SELECT array_agg(id ORDER BY expires_at, id), max(expires_at) INTO v_ids, last_at FROM (
            (SELECT hold.id, hold.expires_at FROM stock.holds AS hold
              WHERE hold.sku_id = p_sku AND hold.state = 'held' AND hold.expires_at <= v_now
              ORDER BY hold.expires_at, hold.id LIMIT p_limit)
            UNION ALL (SELECT cart.id, cart.expires_at FROM stock_verbs.due_carts(p_sku, v_now, p_limit) AS cart)
            ORDER BY expires_at, id LIMIT p_limit) AS due;
    END IF;
    seen := coalesce(cardinality(v_ids), 0);
    last_id := v_ids[seen];
    IF p_skip THEN
        SELECT array_agg(id), array_agg(sku_id) INTO v_ids, v_skus FROM (
            SELECT id, sku_id FROM stock.holds WHERE id = ANY (v_ids) AND state = 'held' AND expires_at <= v_now
             ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) AS locked;
    ELSE
        SELECT array_agg(id), array_agg(sku_id) INTO v_ids, v_skus FROM (
            SELECT id, sku_id FROM stock.holds WHERE id = ANY (v_ids) AND state = 'held' AND expires_at <= v_now
             ORDER BY id FOR NO KEY UPDATE) AS locked;
    END IF;
    holds := coalesce(cardinality(v_ids), 0);
    locked := seen - holds;
    units := 0;
    torn := 0;
    IF holds > 0 THEN
        PERFORM stock_verbs.lock_parts(v_skus, v_ids);
        BEGIN
            units := stock_verbs.finish(v_skus, v_ids, 'expired', array_fill(p_actor, ARRAY[holds]), NULL);
        EXCEPTION WHEN check_violation THEN
            SELECT * INTO holds, units FROM stock_verbs.expire_singly(v_skus, v_ids, p_actor);
            torn := cardinality(v_ids) - holds;
        END;
    END IF;
    RETURN NEXT;
END $$;

-- End holds one by one, so that those whose books are in drift keep only themselves from ending.
CREATE OR REPLACE FUNCTION stock_verbs.expire_singly(
    p_skus integer[], p_holds uuid[], p_actor text, OUT holds integer, OUT units bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    holds := 0;
    units := 0;
    FOR place IN 1 .. cardinality(p_holds) LOOP
        BEGIN
            units := units + stock_verbs.finish(
                p_skus[place:place], p_holds[place:place], 'expired', ARRAY[p_actor], NULL);
            holds := holds + 1;
        EXCEPTION WHEN check_violation THEN
            CONTINUE;
        END;
    END LOOP;
END $$;
