-- Give holds' units back before their deadlines, for everybody who queued.
--
-- p_sku; then one element a member: p_holds (led by p_sku), p_fences (or null), p_callers (as in refusal); a buyer may not
-- release while the payment is under way. Answers one row a member, by place (from 1):
--   done         the hold's document: released now, released before (twice is one release), or expired
--   not-found, stale-fence, hold-paying (buyers only), hold-sold
-- Safe under races: judged on the locked rows; a hold past its deadline ends as expired, whoever comes first. Of two members
-- that name one hold the second hears what became of it by the first.
CREATE OR REPLACE FUNCTION stock_verbs.release(p_sku integer, p_holds uuid[], p_fences bigint[], p_callers text[])
RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_outcomes text[] := array_fill('not-found'::text, ARRAY[cardinality(p_holds)]);
    v_answers  text[] := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
    v_ends     text[] := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
    v_places   integer[];
    v_holds    stock.holds[];
    v_hold     stock.holds;
    v_now      timestamptz;
    v_place    integer;
    v          record;
BEGIN
    SELECT * INTO v_places, v_holds, v_now FROM stock_verbs.lock_holds(p_sku, p_holds);
    FOR i IN 1 .. cardinality(v_places) LOOP
        IF v_hold.id IS DISTINCT FROM (v_holds[i]).id THEN
            v_hold := v_holds[i];
        END IF;
        v_place := v_places[i];
        v_outcomes[v_place] := coalesce(
            stock_verbs.refusal(v_hold, p_fences[v_place], p_callers[v_place]),
            CASE WHEN v_hold.state = 'sold' THEN 'hold-sold'
                 WHEN v_hold.state = 'paying' AND p_callers[v_place] NOT LIKE 'shop:%' THEN 'hold-paying'
                 ELSE 'done' END);
        CONTINUE WHEN v_outcomes[v_place] <> 'done';
        IF v_hold.state IN ('held', 'paying') THEN
            v_hold.state := CASE WHEN stock_verbs.ended(v_hold, v_now) IS NULL THEN 'released' ELSE 'expired' END;
            v_ends[v_place] := v_hold.state;
        END IF;
        v_answers[v_place] := stock_verbs.hold_document(v_hold, v_now);
    END LOOP;
    PERFORM stock_verbs.lock_parts(ARRAY[p_sku], ARRAY (
        SELECT hold FROM unnest(p_holds, v_ends) AS member (hold, ending) WHERE ending IS NOT NULL));
    FOR v IN
        SELECT ending AS state, array_agg(p_sku) AS skus, array_agg(hold ORDER BY hold) AS holds,
               array_agg(caller ORDER BY hold) AS callers
          FROM unnest(p_holds, p_callers, v_ends) AS member (hold, caller, ending) WHERE ending IS NOT NULL GROUP BY ending
    LOOP
        PERFORM stock_verbs.finish(v.skus, v.holds, v.state, v.callers, NULL);
    END LOOP;
    RETURN QUERY
        SELECT member.place::integer, member.outcome, member.answer
          FROM unnest(v_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place);
END $$;
