-- End holds that are past their deadline and give their units back.
--
-- p_sku: only holds with units of that SKU, or null for all. p_limit: at most so many. p_skip: pass over rows that
-- somebody else has locked (the sweep) or wait for them (the tail's reclaim, which must not miss any).
-- p_actor: for the ledger. Answers one row: how many holds ended, and how many units came back. A hold that drift keeps from
-- ending (its sub-counter says that less is held) stays due for the repair, and harms no other.
-- Safe under races: the holds' rows are locked in ascending order before anything else, and judged again as they are then; a
-- confirm or extend that came first has changed the row, and it is left alone. The clock is read once, before: what was due
-- then is due for good. Read for each row, it would keep the index on deadlines from being used.
CREATE OR REPLACE FUNCTION stock_verbs.expire_due(p_sku integer, p_limit integer, p_skip boolean, p_actor text)
RETURNS TABLE (holds integer, units bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids  uuid[];
    v_skus integer[];
    v_now  timestamptz := clock_timestamp();
BEGIN
    v_ids := ARRAY (
        SELECT hold.id FROM stock.holds AS hold
         WHERE hold.state = 'held' AND hold.expires_at <= v_now
           AND (p_sku IS NULL OR (  -- hold by hold: see due_units
               SELECT true FROM stock.hold_parts AS part WHERE part.sku_id = p_sku AND part.hold_id = hold.id LIMIT 1))
         ORDER BY hold.expires_at LIMIT p_limit);
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
    units := 0;
    IF holds > 0 THEN
        PERFORM stock_verbs.lock_parts(v_skus, v_ids);
        BEGIN
            units := stock_verbs.finish(v_skus, v_ids, 'expired', array_fill(p_actor, ARRAY[holds]), NULL);
        EXCEPTION WHEN check_violation THEN
            SELECT * INTO holds, units FROM stock_verbs.expire_singly(v_skus, v_ids, p_actor);
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
