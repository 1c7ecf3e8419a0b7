-- Say that holds' payments have started, for everybody who queued: they no longer expire by themselves, until a deadline of
-- their own.
--
-- p_sku; then one element a member: p_holds (led by p_sku), p_fences, p_callers (as in refusal), p_untils (the deadline asked
-- for, or null for the longest). Answers one row a member, by place (from 1):
--   done               the hold's document; repeating never moves the deadline past the first start + payment_seconds_max
--   not-found, stale-fence, hold-expired, hold-released, hold-sold
-- Safe under races: judged on the locked rows by the clock read after the locks (I4). Of two members that name one hold the
-- second starts from what the first made of it.
CREATE OR REPLACE FUNCTION stock_verbs.start_payment(
    p_sku integer, p_holds uuid[], p_fences bigint[], p_callers text[], p_untils timestamptz[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_nestloop = off AS $$
DECLARE
    v_outcomes text[] := array_fill('not-found'::text, ARRAY[cardinality(p_holds)]);
    v_answers  text[] := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
    v_paying   stock.holds[] := '{}';
    v_distinct integer := 0;
    v_places   integer[];
    v_holds    stock.holds[];
    v_hold     stock.holds;
    v_now      timestamptz;
    v_place    integer;
    v_lead     integer;
    v_seconds  integer;
BEGIN
    SELECT payment_seconds_max INTO v_lead FROM stock.skus WHERE id = p_sku;
    SELECT * INTO v_places, v_holds, v_now FROM stock_verbs.lock_holds(p_sku, p_holds);
    FOR i IN 1 .. cardinality(v_places) LOOP
        IF v_hold.id IS DISTINCT FROM (v_holds[i]).id THEN
            v_hold := v_holds[i];
            v_distinct := v_distinct + 1;
        END IF;
        v_place := v_places[i];
        v_outcomes[v_place] := coalesce(stock_verbs.refusal(v_hold, p_fences[v_place], p_callers[v_place]),
                                        stock_verbs.ended(v_hold, v_now), 'done');
        CONTINUE WHEN v_outcomes[v_place] <> 'done';
        v_seconds := v_lead;
        IF json_array_length(v_hold.lines) > 1 THEN
            v_seconds := (stock_verbs.hold_rules(v_hold.id)).payment_seconds_max;
        END IF;
        v_hold.state := 'paying';
        v_hold.paying_started_at := coalesce(v_hold.paying_started_at, v_now);
        v_hold.paying_until := least(
            CASE WHEN p_untils[v_place] IS NOT NULL THEN greatest(v_now, p_untils[v_place]) END,
            v_hold.paying_started_at + make_interval(secs => v_seconds));
        v_answers[v_place] := stock_verbs.hold_document(v_hold, v_now);
        v_paying[v_distinct] := v_hold;
    END LOOP;
    UPDATE stock.holds AS hold
       SET state = 'paying', paying_started_at = paying.paying_started_at, paying_until = paying.paying_until
      FROM unnest(v_paying) AS paying
     WHERE hold.sku_id = p_sku AND hold.id = ANY (p_holds) AND hold.id = paying.id;
    RETURN QUERY
        SELECT member.place::integer, member.outcome, member.answer
          FROM unnest(v_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place);
END $$;
