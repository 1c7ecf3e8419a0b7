-- Write down the holds of a statement's members: keys, holds, parts, ledger and sub-counters. Shared by reserve,
-- reserve_tail and take; never called from outside.
--
-- The caller has locked the sub-counters and knows that they have what p_units takes. p_outcomes: by member, 'granted' or
-- why not; p_fences: its fence, null unless granted. p_places, p_shards, p_units, p_backorders: the parts: which member takes
-- how many units from which sub-counter, and how many of them beyond its total. The rest as in reserve, and so is the answer:
-- one row a member. A member whose key somebody else had first has the outcome of that: its units stay where they are.
-- A refusal gives way to the record of the same key, looked for after the moment that it speaks of.
CREATE OR REPLACE FUNCTION stock_verbs.write_holds(
    p_sku stock.skus, p_now timestamptz, p_outcomes text[], p_holds uuid[], p_slots uuid[], p_fingerprints bytea[],
    p_quantities bigint[], p_lines text[], p_actors text[], p_owners text[], p_buyers text[], p_operations uuid[],
    p_fences bigint[], p_places integer[], p_shards integer[], p_units bigint[], p_backorders bigint[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_until   timestamptz := p_now + make_interval(secs => p_sku.hold_seconds);
    v_backs   bigint[] := array_fill(0::bigint, ARRAY[cardinality(p_holds)]);
    v_answers text[];
    v_won     uuid[];
BEGIN
    FOR part IN 1 .. cardinality(p_places) LOOP
        IF p_backorders[part] > 0 THEN
            v_backs[p_places[part]] := v_backs[p_places[part]] + p_backorders[part];
        END IF;
    END LOOP;
    SELECT array_agg(stock_verbs.document(hold, fence, 'held', v_until, back, lines) ORDER BY member.place) INTO v_answers
      FROM unnest(p_holds, p_fences, v_backs, p_lines) WITH ORDINALITY AS member (hold, fence, back, lines, place);
    WITH won AS (
        INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id, created_at)
        SELECT p_sku.id, slot, fingerprint, member.answer, operation, hold, p_now
          FROM unnest(p_slots, p_fingerprints, v_answers, p_operations, p_holds) WITH ORDINALITY
               AS member (slot, fingerprint, answer, operation, hold, place)
         WHERE member.answer IS NOT NULL ORDER BY slot, member.place
        ON CONFLICT DO NOTHING RETURNING operation_id)
    SELECT array_agg(operation_id) INTO v_won FROM won;
    IF cardinality(v_won) IS DISTINCT FROM cardinality(array_remove(p_fences, NULL)) THEN
        FOR i IN 1 .. cardinality(p_holds) LOOP
            IF p_fences[i] IS NOT NULL AND (p_operations[i] = ANY (v_won)) IS NOT TRUE THEN
                p_fences[i] := NULL;
                p_outcomes[i] := 'lost';
            END IF;
        END LOOP;
    END IF;
    IF v_won IS NOT NULL THEN
        INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, owner, buyer, lines, quantity, backordered, created_at)
        SELECT p_sku.id, hold, fence, v_until, actor, owner, buyer, lines::json, quantity, back, p_now
          FROM unnest(p_holds, p_fences, p_actors, p_owners, p_buyers, p_lines, p_quantities, v_backs)
               AS member (hold, fence, actor, owner, buyer, lines, quantity, back)
         WHERE fence IS NOT NULL;
        PERFORM stock_verbs.write_parts(
            p_sku.id, p_sku.id, p_now, p_holds, p_actors, p_buyers, p_operations, p_fences, p_places, p_shards, p_units, p_backorders);
    END IF;
    IF p_outcomes <@ ARRAY['granted', 'tail'] THEN
        RETURN QUERY SELECT member.place::integer, member.outcome, CASE member.outcome WHEN 'granted' THEN member.answer END
                       FROM unnest(p_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place);
        RETURN;
    END IF;
    RETURN QUERY
        SELECT member.place::integer,
               coalesce(stock_verbs.recorded_as(record, p_fingerprints[member.place], p_operations[member.place]),
                        CASE member.outcome WHEN 'lost' THEN 'key-reused' ELSE member.outcome END),
               CASE WHEN member.outcome = 'granted' THEN member.answer
                    WHEN record.fingerprint = p_fingerprints[member.place] THEN record.answer END
          FROM unnest(p_outcomes, v_answers) WITH ORDINALITY AS member (outcome, answer, place)
          LEFT JOIN stock.idempotency AS record
                 ON member.outcome NOT IN ('granted', 'tail') AND record.slot = p_slots[member.place] AND record.sku_id = p_sku.id;
END $$;

-- The parts of the members that have a fence: where their units come from, in the ledger and off the sub-counters. p_lead: the
-- SKU that leads their holds.
CREATE OR REPLACE FUNCTION stock_verbs.write_parts(
    p_sku integer, p_lead integer, p_now timestamptz, p_holds uuid[], p_actors text[], p_buyers text[], p_operations uuid[],
    p_fences bigint[], p_places integer[], p_shards integer[], p_units bigint[], p_backorders bigint[]
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_rows   integer := 1 + (SELECT max(shard) FROM unnest(p_shards) AS shard);
    v_moved  bigint[] := array_fill(0::bigint, ARRAY[v_rows]);  -- by shard + 1, so that one UPDATE needs no join
    v_fences bigint[] := array_fill(0::bigint, ARRAY[v_rows]);
    v_row    integer;
BEGIN
    WITH part AS MATERIALIZED (
        SELECT at, shard, sum(units)::bigint AS units, sum(back)::bigint AS back
          FROM unnest(p_places, p_shards, p_units, p_backorders) AS taken (at, shard, units, back)
         WHERE p_fences[at] IS NOT NULL GROUP BY at, shard
    ), kept AS (
        INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, backordered, buyer)
        SELECT p_sku, p_holds[at], shard, p_lead, units, back, p_buyers[at] FROM part)
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor, at)
    SELECT p_sku, p_operations[part.at], 'reserve', shard, units, p_holds[part.at], p_actors[part.at], p_now
      FROM part ORDER BY part.at, shard;
    FOR part IN 1 .. cardinality(p_places) LOOP
        CONTINUE WHEN p_fences[p_places[part]] IS NULL;
        v_row := 1 + p_shards[part];
        v_moved[v_row] := v_moved[v_row] + p_units[part];
        v_fences[v_row] := greatest(v_fences[v_row], p_fences[p_places[part]]);
    END LOOP;
    UPDATE stock.sub_counters
       SET held = held + v_moved[shard + 1], fence = greatest(fence, v_fences[shard + 1])
     WHERE sku_id = p_sku AND shard = ANY (p_shards) AND v_moved[shard + 1] > 0;
END $$;
