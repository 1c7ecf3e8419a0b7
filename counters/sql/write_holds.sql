-- Write down the holds of a statement's members: keys, holds, parts, ledger and sub-counters. Shared by reserve and
-- reserve_tail; never called from outside.
--
-- The caller has locked the sub-counters and knows that they have what p_units takes. p_outcomes: by member, 'granted' or
-- why not; p_fences and p_backs: its fence, null unless granted, and how many of its units are beyond the total. p_places,
-- p_shards, p_units, p_backorders: the parts: which member takes how many units from which sub-counter, and how many of them
-- beyond its total. The rest as in reserve, and so is the answer: one row a member. A member whose key somebody else had first has
-- the outcome of that: its units stay where they are. A refusal gives way to the record of the same key, looked for after
-- the moment that it speaks of.
CREATE OR REPLACE FUNCTION stock_verbs.write_holds(
    p_sku stock.skus, p_now timestamptz, p_outcomes text[], p_holds uuid[], p_slots uuid[], p_fingerprints bytea[],
    p_quantities bigint[], p_lines text[], p_actors text[], p_owners text[], p_buyers text[], p_operations uuid[],
    p_fences bigint[], p_backs bigint[], p_places integer[], p_shards integer[], p_units bigint[], p_backorders bigint[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_until timestamptz := p_now + make_interval(secs => p_sku.hold_seconds);
    v_moved bigint[] := array_fill(0::bigint, ARRAY[p_sku.shards]);  -- by shard + 1, so that one UPDATE needs no join
    v_won   integer[];
    v_texts text[];
BEGIN
    IF 'granted' = ANY (p_outcomes) THEN
        FOR part IN 1 .. cardinality(p_places) LOOP
            IF p_fences[p_places[part]] IS NOT NULL THEN
                v_moved[1 + p_shards[part]] := v_moved[1 + p_shards[part]] + p_units[part];
            END IF;
        END LOOP;
        -- One statement for all tables. Whoever lost its key is left out by a hashed look at the keys that went in: joins of
        -- these lists would be nested loops, since the planner takes each of them for a handful of rows.
        WITH candidate AS MATERIALIZED (
            SELECT member.*, stock_verbs.document(hold, fence, 'held', v_until, back, lines) AS document
              FROM unnest(p_holds, p_slots, p_fingerprints, p_quantities, p_lines, p_actors, p_owners, p_buyers, p_operations,
                          p_fences, p_backs) WITH ORDINALITY
                   AS member (hold, slot, fingerprint, quantity, lines, actor, owner, buyer, operation, fence, back, at)
             WHERE fence IS NOT NULL ORDER BY slot, at
        ), won AS (
            INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id, created_at)
            SELECT p_sku.id, slot, fingerprint, document, operation, hold, p_now FROM candidate
            ON CONFLICT DO NOTHING RETURNING operation_id
        ), granted AS MATERIALIZED (
            SELECT * FROM candidate WHERE (operation IN (SELECT operation_id FROM won)) IS TRUE
        ), held AS (
            INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, owner, buyer, lines, quantity, backordered, created_at)
            SELECT p_sku.id, hold, fence, v_until, actor, owner, buyer, lines::json, quantity, back, p_now FROM granted
        ), part AS MATERIALIZED (
            SELECT taken.at, shard, sum(units)::bigint AS units, sum(back)::bigint AS back
              FROM unnest(p_places, p_shards, p_units, p_backorders) AS taken (at, shard, units, back)
             WHERE (taken.at IN (SELECT granted.at FROM granted)) IS TRUE GROUP BY taken.at, shard
        ), kept AS (
            INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, backordered, buyer)
            SELECT p_sku.id, p_holds[at], shard, p_sku.id, units, back, p_buyers[at] FROM part
        ), written AS (
            INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, hold_id, actor, at)
            SELECT p_sku.id, p_operations[part.at], 'reserve', shard, units, p_holds[part.at], p_actors[part.at], p_now
              FROM part ORDER BY part.at, shard
        ), counted AS (
            UPDATE stock.sub_counters
               SET held = held + v_moved[shard + 1], fence = greatest(fence, (SELECT max(granted.fence) FROM granted))
             WHERE sku_id = p_sku.id AND shard = ANY (p_shards) AND v_moved[shard + 1] > 0
        )
        SELECT array_agg(granted.at), array_agg(document) INTO v_won, v_texts FROM granted;
        RETURN QUERY SELECT at, 'granted', document FROM unnest(v_won, v_texts) AS granted (at, document);
    END IF;
    IF v_won IS NULL OR cardinality(v_won) < cardinality(p_holds) THEN
        RETURN QUERY SELECT * FROM stock_verbs.write_losers(
            p_sku, v_won, p_outcomes, p_slots, p_fingerprints, p_operations, p_places, p_shards, p_units);
    END IF;
END $$;

-- What those members hear who are not among p_won; the units of those who lost their keys go back to where they are.
CREATE OR REPLACE FUNCTION stock_verbs.write_losers(
    p_sku stock.skus, p_won integer[], p_outcomes text[], p_slots uuid[], p_fingerprints bytea[], p_operations uuid[],
    p_places integer[], p_shards integer[], p_units bigint[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_back bigint[] := array_fill(0::bigint, ARRAY[p_sku.shards]);
BEGIN
    FOR i IN 1 .. cardinality(p_outcomes) LOOP
        p_outcomes[i] := CASE WHEN i = ANY (p_won) THEN NULL WHEN p_outcomes[i] = 'granted' THEN 'lost' ELSE p_outcomes[i] END;
    END LOOP;
    IF 'lost' = ANY (p_outcomes) THEN
        FOR part IN 1 .. cardinality(p_places) LOOP
            IF p_outcomes[p_places[part]] = 'lost' THEN
                v_back[1 + p_shards[part]] := v_back[1 + p_shards[part]] + p_units[part];
            END IF;
        END LOOP;
        UPDATE stock.sub_counters SET held = held - v_back[shard + 1]
         WHERE sku_id = p_sku.id AND shard = ANY (p_shards) AND v_back[shard + 1] > 0;
    END IF;
    RETURN QUERY
        SELECT member.place::integer,
               coalesce(stock_verbs.recorded_as(record, p_fingerprints[member.place], p_operations[member.place]),
                        CASE member.outcome WHEN 'lost' THEN 'key-reused' ELSE member.outcome END),
               CASE WHEN record.fingerprint = p_fingerprints[member.place] THEN record.answer END
          FROM unnest(p_outcomes) WITH ORDINALITY AS member (outcome, place)
          LEFT JOIN stock.idempotency AS record
                 ON member.outcome <> 'tail' AND record.slot = p_slots[member.place] AND record.sku_id = p_sku.id
         WHERE member.outcome IS NOT NULL;
END $$;
