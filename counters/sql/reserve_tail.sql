-- Reserve units of one fungible SKU, exactly, for everybody whom reserve sent on: the slower path near sell-out.
--
-- Arguments as in reserve, without the hashes. Answers one row a member, by place (from 1):
--   granted, replayed, done, key-reused, not-on-sale, other-room   as in reserve
--   reclaim             what is missing, or a limit, is in due, unswept holds: run expire_due for the SKUs in answer (null:
--                       this one), then ask again
--   again               somebody else's key made our count wrong: ask again
--   sold-out            nothing is available; answer = {sku, available, held, next_release_at}
--   insufficient-stock  fewer are available than asked; the same answer
--   buyer-limit         answer = {sku, limit, taken, asked}
--   buyer-missing       the SKU is limited per buyer and nobody says who buys; answer = {sku}
-- Available are the units of every sub-counter, inactive ones too, those of due holds, and what may be sold beyond the total
-- (the allowance), which is given last and told as backordered.
-- Safe under races: it grants only under every lock, taken in the one order (buyers, then all the SKU's sub-counters), with
-- the clock read after them. It refuses under those locks, or, where nobody can be served, from the snapshot of one
-- statement: what it refuses was not there at that moment. The clock is read after the snapshot that it judges, so that what
-- fell due meanwhile is reclaimed and not refused. Keys are looked for after that moment and before anything is given, and once
-- more at the end, so that a duplicate of what emptied the stock hears the first answer and no refusal.
CREATE OR REPLACE FUNCTION stock_verbs.reserve_tail(
    p_sku integer, p_holds uuid[], p_slots uuid[], p_fingerprints bytea[], p_quantities bigint[],
    p_lines text[], p_rooms text[], p_actors text[], p_owners text[], p_buyers text[], p_operations uuid[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku      stock.skus;
    v_stock    record;
    v_judged   record;
    v_given    record;
    v_outcomes text[];
    v_answers  text[];
    v_next     text;
    v_locked   boolean;
    v_granted  bigint;
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku;
    SELECT * INTO v_stock FROM stock_verbs.tail_stock(p_sku, clock_timestamp());
    v_locked := (SELECT min(quantity) FROM unnest(p_quantities) AS quantity) <= v_stock.free + v_stock.due;
    IF v_locked THEN
        IF v_sku.buyer_max IS NOT NULL THEN
            PERFORM stock_verbs.lock_buyers(v_sku, p_buyers);
        END IF;
        PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku ORDER BY shard FOR NO KEY UPDATE;
        SELECT * INTO v_stock FROM stock_verbs.tail_stock(p_sku, clock_timestamp());
    END IF;
    SELECT * INTO v_judged FROM stock_verbs.tail_judge(
        v_sku, v_stock.now, v_stock.free, v_stock.due, v_locked, p_slots, p_quantities, p_rooms, p_buyers);
    SELECT * INTO v_given FROM stock_verbs.tail_give(
        v_judged.outcomes, p_quantities, v_stock.fence, v_stock.shards, v_stock.units, v_stock.beyond);
    SELECT array_agg(written.outcome ORDER BY written.place), array_agg(written.answer ORDER BY written.place)
      INTO v_outcomes, v_answers
      FROM stock_verbs.write_holds(
           v_sku, v_stock.now, v_judged.outcomes, p_holds, p_slots, p_fingerprints, p_quantities, p_lines, p_actors, p_owners,
           p_buyers, p_operations, v_given.fences, v_given.backs, v_given.places, v_given.shards, v_given.units,
           v_given.backorders) AS written;

    IF cardinality(array_positions(v_outcomes, 'granted')) < cardinality(array_positions(v_judged.outcomes, 'granted')) THEN
        v_outcomes := array_replace(array_replace(array_replace(
            v_outcomes, 'sold-out', 'again'), 'insufficient-stock', 'again'), 'buyer-limit', 'again');
    END IF;
    v_next := stock_verbs.next_release(p_sku, v_stock.now);
    v_granted := coalesce((  -- whoever is refused beside them hears of these units as held
        SELECT sum(member.quantity) FROM unnest(v_outcomes, p_quantities) AS member (outcome, quantity)
         WHERE member.outcome = 'granted'), 0);
    RETURN QUERY
        SELECT member.place::integer, CASE member.outcome WHEN 'reclaim-limit' THEN 'reclaim' ELSE member.outcome END, CASE
               WHEN member.outcome = 'reclaim-limit' THEN (
                   SELECT json_agg(id) FROM stock.skus WHERE id = p_sku OR limit_group = v_sku.limit_group)::text
               WHEN member.outcome IN ('sold-out', 'insufficient-stock') THEN json_build_object(
                   'sku', v_sku.name, 'available', member.figure, 'held', v_stock.held - v_stock.due + v_granted,
                   'next_release_at', v_next)::text
               WHEN member.outcome = 'buyer-limit' THEN json_build_object(
                   'sku', v_sku.name, 'limit', v_sku.buyer_max, 'taken', member.figure, 'asked', member.quantity)::text
               WHEN member.outcome = 'buyer-missing' THEN json_build_object('sku', v_sku.name)::text
               ELSE member.answer END
          FROM unnest(v_outcomes, v_answers, v_judged.figures, p_quantities) WITH ORDINALITY
               AS member (outcome, answer, figure, quantity, place);
END $$;

-- What a SKU has to give, in one snapshot: free units (allowance included) and due ones in all, held ones, the last fence; and
-- who gives in which order: real units first, fullest first, then those beyond the total. p_now comes back as it came: as an
-- argument of the statement it is read after that took its snapshot.
CREATE OR REPLACE FUNCTION stock_verbs.tail_stock(
    p_sku integer, p_now timestamptz, OUT now timestamptz, OUT free bigint, OUT due bigint, OUT held bigint, OUT fence bigint,
    OUT shards integer[], OUT units bigint[], OUT beyond boolean[]
) LANGUAGE sql STABLE AS $$
    WITH counter AS MATERIALIZED (
        SELECT shard, greatest(total - held - sold, 0) AS real, total + allowance - held - sold AS free, held, fence
          FROM stock.sub_counters WHERE sku_id = p_sku
    ), giver AS (
        SELECT shard, real AS units, false AS beyond FROM counter WHERE real > 0
        UNION ALL
        SELECT shard, free - real, true FROM counter WHERE free > real
    )
    SELECT p_now, (SELECT coalesce(sum(counter.free), 0) FROM counter)::bigint, stock_verbs.due_units(p_sku, p_now),
           (SELECT coalesce(sum(counter.held), 0) FROM counter)::bigint, (SELECT max(counter.fence) FROM counter),
           array_agg(shard ORDER BY beyond, units DESC, shard), array_agg(units ORDER BY beyond, units DESC, shard),
           array_agg(beyond ORDER BY beyond, units DESC, shard)
      FROM giver
$$;

-- Judge the members one by one, in arrival order, each after what those before it were given. figures: beside a refusal for
-- stock, what was available then; beside one for a limit, what the buyer had. p_known: whether keys are looked up first.
CREATE OR REPLACE FUNCTION stock_verbs.tail_judge(
    p_sku stock.skus, p_now timestamptz, p_free bigint, p_due bigint, p_known boolean, p_slots uuid[], p_quantities bigint[],
    p_rooms text[], p_buyers text[], OUT outcomes text[], OUT figures bigint[]
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_closed text := stock_verbs.sale_refusal(p_sku, p_sku.room, p_now);
    v_names  text[];
    v_units  bigint[];
    v_due    bigint[];
    v_buyer  integer;
    v_known  integer[];
BEGIN
    outcomes := array_fill(NULL::text, ARRAY[cardinality(p_slots)]);
    figures := array_fill(NULL::bigint, ARRAY[cardinality(p_slots)]);
    IF p_sku.buyer_max IS NOT NULL THEN
        v_names := ARRAY (SELECT DISTINCT buyer FROM unnest(p_buyers) AS buyer WHERE buyer IS NOT NULL ORDER BY 1);
        SELECT had.units, had.due INTO v_units, v_due FROM stock_verbs.buyers_units(p_sku, v_names, clock_timestamp()) AS had;
    END IF;
    IF p_known THEN
        v_known := ARRAY (SELECT asked.place FROM unnest(p_slots) WITH ORDINALITY AS asked (slot, place)
                            JOIN stock.idempotency AS record ON record.slot = asked.slot AND record.sku_id = p_sku.id);
    END IF;
    FOR i IN 1 .. cardinality(p_slots) LOOP
        v_buyer := array_position(v_names, p_buyers[i]);
        outcomes[i] := CASE
            WHEN i = ANY (v_known) THEN 'lost'
            WHEN p_sku.room IS NOT NULL AND p_rooms[i] IS DISTINCT FROM p_sku.room THEN 'other-room'
            WHEN v_closed IS NOT NULL THEN v_closed
            WHEN p_sku.buyer_max IS NOT NULL AND v_buyer IS NULL THEN 'buyer-missing'
            WHEN v_units[v_buyer] - v_due[v_buyer] + p_quantities[i] > p_sku.buyer_max THEN 'buyer-limit'
            WHEN v_units[v_buyer] + p_quantities[i] > p_sku.buyer_max THEN 'reclaim-limit'
            WHEN p_quantities[i] <= p_free THEN 'granted'
            WHEN p_quantities[i] <= p_free + p_due THEN 'reclaim'
            WHEN p_free + p_due <= 0 THEN 'sold-out'
            ELSE 'insufficient-stock'
        END;
        IF outcomes[i] = 'granted' THEN
            p_free := p_free - p_quantities[i];
            IF v_buyer IS NOT NULL THEN
                v_units[v_buyer] := v_units[v_buyer] + p_quantities[i];
            END IF;
        END IF;
        figures[i] := CASE outcomes[i] WHEN 'buyer-limit' THEN v_units[v_buyer] - v_due[v_buyer] ELSE p_free + p_due END;
    END LOOP;
END $$;

-- Share the granted members out over those who give: the parts of each, its fence, and how many units are beyond the total.
CREATE OR REPLACE FUNCTION stock_verbs.tail_give(
    p_outcomes text[], p_quantities bigint[], p_fence bigint, p_shards integer[], p_units bigint[], p_beyond boolean[],
    OUT fences bigint[], OUT backs bigint[], OUT places integer[], OUT shards integer[], OUT units bigint[], OUT backorders bigint[]
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_giver   integer := 1;
    v_missing bigint;
    v_units   bigint;
BEGIN
    fences := array_fill(NULL::bigint, ARRAY[cardinality(p_outcomes)]);
    backs := array_fill(0::bigint, ARRAY[cardinality(p_outcomes)]);
    places := '{}';
    shards := '{}';
    units := '{}';
    backorders := '{}';
    FOR i IN 1 .. cardinality(p_outcomes) LOOP
        CONTINUE WHEN p_outcomes[i] <> 'granted';
        fences[i] := p_fence + i;
        v_missing := p_quantities[i];
        WHILE v_missing > 0 LOOP
            v_units := least(v_missing, p_units[v_giver]);
            IF v_units IS NULL THEN
                RAISE EXCEPTION 'more was granted than there is' USING ERRCODE = 'integrity_constraint_violation';
            END IF;
            places := places || i;
            shards := shards || p_shards[v_giver];
            units := units || v_units;
            backorders := backorders || CASE WHEN p_beyond[v_giver] THEN v_units ELSE 0 END;
            backs[i] := backs[i] + backorders[cardinality(backorders)];
            v_missing := v_missing - v_units;
            p_units[v_giver] := p_units[v_giver] - v_units;
            IF p_units[v_giver] = 0 THEN
                v_giver := v_giver + 1;
            END IF;
        END LOOP;
    END LOOP;
END $$;
