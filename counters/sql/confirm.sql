-- Turn live holds into sales, for everybody who queued.
--
-- p_sku; then one element a member: p_holds (led by p_sku), p_fences, p_callers (as in refusal), p_slots (of the idempotency
-- keys), p_fingerprints (of the bodies), p_operations, p_sales (UUIDv7 that end with p_sku). Answers one row a member, by place
-- (from 1):
--   done, replayed     the sale's document; confirming what is sold answers the same sale, whatever the key
--   key-reused, not-found, stale-fence, hold-expired, hold-released
-- A `held` hold past its deadline is never confirmed, swept or not; a `paying` one lives until the reconciler ends it.
-- Safe under races: the holds' rows are locked first, the clock read after; then sub-counters, seats, and the keys. A member
-- whose key somebody else had first sells nothing. UNIQUE a_hold_is_sold_once says the same; of two members that name one
-- hold the second hears of the first's sale. Refusals give way to the record of the same key, looked for at the end.
CREATE OR REPLACE FUNCTION stock_verbs.confirm(
    p_sku integer, p_holds uuid[], p_fences bigint[], p_callers text[], p_slots uuid[], p_fingerprints bytea[],
    p_operations uuid[], p_sales uuid[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_outcomes text[] := array_fill('not-found'::text, ARRAY[cardinality(p_holds)]);
    v_answers  text[] := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
    v_promised bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_holds)]);
    v_places   integer[];
    v_holds    stock.holds[];
    v_hold     stock.holds;
    v_now      timestamptz;
    v_outcome  text;
    v_place    integer;
    v_last     uuid;
    v_first    record;
BEGIN
    SELECT * INTO v_places, v_holds, v_now FROM stock_verbs.lock_holds(p_sku, p_holds);
    FOR i IN 1 .. cardinality(v_places) LOOP
        v_hold := v_holds[i];
        v_place := v_places[i];
        v_outcome := coalesce(stock_verbs.refusal(v_hold, p_fences[v_place], p_callers[v_place]),
                              stock_verbs.ended(v_hold, v_now), CASE WHEN v_hold.id = v_last THEN 'hold-sold' ELSE 'done' END);
        v_outcomes[v_place] := v_outcome;
        CONTINUE WHEN v_outcome <> 'done';
        v_last := v_hold.id;
        v_promised[v_place] := v_hold.quantity;
        v_answers[v_place] := stock_verbs.sale_text(
            p_sales[v_place], v_hold, v_now, v_hold.lines::text, NULL::timestamptz, NULL::text);
    END LOOP;
    IF v_last IS NOT NULL THEN
        v_outcomes := stock_verbs.sell(
            p_sku, v_now, v_outcomes, v_answers, v_promised, p_holds, p_callers, p_slots, p_fingerprints, p_operations, p_sales);
    END IF;
    FOR i IN 1 .. cardinality(p_holds) LOOP
        CONTINUE WHEN v_outcomes[i] = 'done';
        SELECT * INTO v_first FROM stock_verbs.recorded(p_sku, p_slots[i], p_fingerprints[i], p_operations[i]);
        IF FOUND THEN
            v_outcomes[i] := v_first.outcome;
            v_answers[i] := v_first.answer;
        ELSIF v_outcomes[i] = 'hold-sold' THEN
            v_outcomes[i] := 'replayed';
            v_answers[i] := stock_verbs.sale_document(p_sku, p_holds[i]);
        ELSE
            v_answers[i] := NULL;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT member.place::integer, member.outcome, member.answer
          FROM unnest(v_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place);
END $$;

-- Sell the holds of the members that have an answer. Answers the outcomes again, 'key-reused' for those whose key somebody else
-- had first. The caller has locked the holds.
CREATE OR REPLACE FUNCTION stock_verbs.sell(
    p_sku integer, p_now timestamptz, p_outcomes text[], p_answers text[], p_promised bigint[], p_holds uuid[],
    p_callers text[], p_slots uuid[], p_fingerprints bytea[], p_operations uuid[], p_sales uuid[]
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_selling uuid[] := ARRAY (
        SELECT hold FROM unnest(p_holds, p_answers) AS member (hold, answer) WHERE answer IS NOT NULL);
    v_won     uuid[];
    v         record;
BEGIN
    PERFORM stock_verbs.lock_parts(ARRAY[p_sku], v_selling);
    WITH won AS (
        INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id, created_at)
        SELECT p_sku, slot, fingerprint, answer, operation, hold, p_now
          FROM unnest(p_slots, p_fingerprints, p_answers, p_operations, p_holds)
               AS member (slot, fingerprint, answer, operation, hold)
         WHERE answer IS NOT NULL ORDER BY slot
        ON CONFLICT DO NOTHING RETURNING operation_id)
    SELECT coalesce(array_agg(operation_id), '{}') INTO v_won FROM won;
    IF cardinality(v_won) < cardinality(v_selling) THEN
        FOR i IN 1 .. cardinality(p_holds) LOOP
            IF p_answers[i] IS NOT NULL AND p_operations[i] <> ALL (v_won) THEN
                p_answers[i] := NULL;
                p_outcomes[i] := 'key-reused';
            END IF;
        END LOOP;
    END IF;
    SELECT array_agg(p_sku) AS skus, array_agg(hold ORDER BY hold) AS holds, array_agg(caller ORDER BY hold) AS callers,
           array_agg(operation ORDER BY hold) AS operations, array_agg(sale ORDER BY hold) AS sales,
           array_agg(promised ORDER BY hold) AS promised
      INTO v
      FROM unnest(p_holds, p_callers, p_operations, p_sales, p_promised, p_answers)
           AS member (hold, caller, operation, sale, promised, answer)
     WHERE answer IS NOT NULL;
    IF v.holds IS NOT NULL THEN
        PERFORM stock_verbs.finish(v.skus, v.holds, 'sold', v.callers, NULL, v.operations, p_now, v.sales, v.promised);
    END IF;
    RETURN p_outcomes;
END $$;

-- The document of a sale of p_hold, of p_lines; cancelled once p_cancelled_at is not null.
CREATE OR REPLACE FUNCTION stock_verbs.sale_text(
    p_id uuid, p_hold stock.holds, p_sold_at timestamptz, p_lines text, p_cancelled_at timestamptz, p_reason text
) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT '{"id": "' || p_id || '", "hold": "' || p_hold.id || '", "state": "'
        || CASE WHEN p_cancelled_at IS NULL THEN 'sold' ELSE 'cancelled' END
        || '", "fence": ' || p_hold.fence || ', "sold_at": "' || stock_verbs.moment(p_sold_at) || '"'
        || CASE WHEN p_hold.backordered > 0 THEN ', "backordered": ' || p_hold.backordered ELSE '' END
        || CASE WHEN p_cancelled_at IS NOT NULL
                THEN ', "cancelled_at": "' || stock_verbs.moment(p_cancelled_at) || '", "reason": ' || to_json(p_reason)
                ELSE '' END
        || ', "lines": ' || p_lines || '}'
$$;

-- The sale of a hold as callers see it now.
CREATE OR REPLACE FUNCTION stock_verbs.sale_document(p_sku integer, p_hold uuid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT stock_verbs.sale_text(sale.id, hold, sale.sold_at, coalesce(sale.lines, hold.lines)::text,
                                 sale.cancelled_at, sale.cancel_reason)
      FROM stock.sales AS sale JOIN stock.holds AS hold ON hold.sku_id = sale.sku_id AND hold.id = sale.hold_id
     WHERE sale.sku_id = p_sku AND sale.hold_id = p_hold
$$;
