-- Move held holds' deadlines further away, for everybody who queued.
--
-- p_sku; then one element a member: p_holds (led by p_sku), p_fences, p_callers (as in refusal), p_seconds (from now, or null
-- for hold_seconds), p_operations. A deadline never moves nearer, and never past creation + hold_seconds_max; in a cart the
-- strictest SKU's rules hold. Answers one row a member, by place (from 1):
--   done         the hold's document; also where this very operation extended it before, and its answer was lost
--   extension-limit (extensions_max reached, or the deadline is at its furthest)
--   not-found, stale-fence, hold-paying, hold-expired, hold-released, hold-sold
-- Safe under races: judged on the locked rows by the clock read after the locks (I4). Of two members that name one hold the
-- second starts from what the first made of it.
CREATE OR REPLACE FUNCTION stock_verbs.extend(
    p_sku integer, p_holds uuid[], p_fences bigint[], p_callers text[], p_seconds integer[], p_operations uuid[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_nestloop = off AS $$
DECLARE
    v_outcomes text[] := array_fill('not-found'::text, ARRAY[cardinality(p_holds)]);
    v_answers  text[] := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
    v_extended stock.holds[] := '{}';
    v_distinct integer := 0;
    v_places   integer[];
    v_holds    stock.holds[];
    v_hold     stock.holds;
    v_now      timestamptz;
    v_place    integer;
    v_outcome  text;
    v_lead     record;
    v_rules    record;
    v_deadline timestamptz;
BEGIN
    SELECT hold_seconds, hold_seconds_max, extensions_max INTO v_lead FROM stock.skus WHERE id = p_sku;
    SELECT * INTO v_places, v_holds, v_now FROM stock_verbs.lock_holds(p_sku, p_holds);
    FOR i IN 1 .. cardinality(v_places) LOOP
        IF v_hold.id IS DISTINCT FROM (v_holds[i]).id THEN
            v_hold := v_holds[i];
            v_distinct := v_distinct + 1;
        END IF;
        v_place := v_places[i];
        v_rules := v_lead;
        IF json_array_length(v_hold.lines) > 1 THEN
            v_rules := stock_verbs.hold_rules(v_hold.id);
        END IF;
        v_deadline := least(v_now + make_interval(secs => coalesce(p_seconds[v_place], v_rules.hold_seconds)),
                            v_hold.created_at + make_interval(secs => v_rules.hold_seconds_max));
        v_outcome := coalesce(
            stock_verbs.refusal(v_hold, p_fences[v_place], p_callers[v_place]),
            CASE WHEN v_hold.state = 'paying' THEN 'hold-paying' END,
            stock_verbs.ended(v_hold, v_now),
            CASE WHEN v_hold.extended_by = p_operations[v_place] THEN 'done'
                 WHEN v_hold.extensions >= v_rules.extensions_max OR v_deadline <= v_hold.expires_at THEN 'extension-limit'
                 ELSE 'extends' END);
        IF v_outcome = 'extends' THEN
            v_hold.expires_at := v_deadline;
            v_hold.extensions := v_hold.extensions + 1;
            v_hold.extended_by := p_operations[v_place];
            v_extended[v_distinct] := v_hold;
            v_outcome := 'done';
        END IF;
        v_outcomes[v_place] := v_outcome;
        IF v_outcome = 'done' THEN
            v_answers[v_place] := stock_verbs.hold_document(v_hold, v_now);
        END IF;
    END LOOP;
    UPDATE stock.holds AS hold
       SET expires_at = extended.expires_at, extensions = extended.extensions, extended_by = extended.extended_by
      FROM unnest(v_extended) AS extended
     WHERE hold.sku_id = p_sku AND hold.id = ANY (p_holds) AND hold.id = extended.id;
    RETURN QUERY
        SELECT member.place::integer, member.outcome, member.answer
          FROM unnest(v_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place);
END $$;
