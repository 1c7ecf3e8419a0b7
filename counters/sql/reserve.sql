-- Reserve units of one fungible SKU for everybody who queued: the one conditional decrement that grants.
--
-- p_sku; then one element a member, in the order of their arrival: p_holds (UUIDv7 that end with p_sku), p_slots (of the
-- idempotency keys), p_fingerprints (of the bodies), p_hashes (each picks a sub-counter), p_quantities >= 1, p_lines (JSON, as
-- asked), p_rooms (of the live pass, or null), p_actors (who asks), p_owners (the pass's room:ticket), p_buyers (whom limits
-- count), p_operations. Answers one row a member, by place (from 1):
--   granted, replayed   the hold's document; done: the same, where an earlier sending of this operation was granted
--   key-reused          the key had an effect under another body
--   not-on-sale, other-room
--   tail                its sub-counter cannot serve it, or its buyer's limit: reserve_tail decides
-- It never refuses for lack of stock or for a limit, and it never grants beyond the total: backorders are the tail's.
-- Safe under races: buyers' rows, then sub-counters are locked, each ascending, before anything is counted; the clock is read
-- after them. Members are judged one by one in arrival order. The keys go in next, in order; a member whose key somebody
-- else had first gets nothing, and reads the winner's answer in a later statement, which a VOLATILE function sees at READ
-- COMMITTED. The CHECK sub_counter_never_oversold says the same as the arithmetic.
CREATE OR REPLACE FUNCTION stock_verbs.reserve(
    p_sku integer, p_holds uuid[], p_slots uuid[], p_fingerprints bytea[], p_hashes bigint[], p_quantities bigint[],
    p_lines text[], p_rooms text[], p_actors text[], p_owners text[], p_buyers text[], p_operations uuid[]
) RETURNS TABLE (place integer, outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku      stock.skus;
    v_members  integer := cardinality(p_holds);
    v_names    text[];     -- the buyers whom a limit counts, and what each of them has
    v_units    bigint[];
    v_picked   integer[];  -- each member's sub-counter; what each of these may still give, and its last fence
    v_free     bigint[];
    v_fence    bigint[];
    v_now      timestamptz;
    v_closed   text;
    v_row      integer;
    v_buyer    integer;
    v_shards   integer[] := array_fill(NULL::integer, ARRAY[v_members]);
    v_fences   bigint[] := array_fill(NULL::bigint, ARRAY[v_members]);
    v_outcomes text[] := array_fill('tail'::text, ARRAY[v_members]);
    v_places   integer[] := array_fill(0, ARRAY[v_members]);  -- each member takes one part, its own
    v_none     bigint[] := array_fill(0::bigint, ARRAY[v_members]);
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku;
    IF v_sku.buyer_max IS NOT NULL THEN
        v_names := stock_verbs.lock_buyers(v_sku, p_buyers);
    END IF;
    SELECT * INTO v_picked, v_free, v_fence FROM stock_verbs.lock_rows(v_sku, p_hashes);
    v_now := clock_timestamp();
    IF v_sku.buyer_max IS NOT NULL THEN
        v_units := (stock_verbs.buyers_units(v_sku, v_names, v_now)).units;
    END IF;
    v_closed := stock_verbs.sale_refusal(v_sku, v_sku.room, v_now);

    FOR i IN 1 .. v_members LOOP
        v_places[i] := i;
        IF v_sku.room IS NOT NULL AND p_rooms[i] IS DISTINCT FROM v_sku.room THEN
            v_outcomes[i] := 'other-room';
            CONTINUE;
        ELSIF v_closed IS NOT NULL THEN
            v_outcomes[i] := v_closed;
            CONTINUE;
        ELSIF v_sku.buyer_max IS NOT NULL THEN
            v_buyer := array_position(v_names, p_buyers[i]);
            CONTINUE WHEN v_buyer IS NULL OR v_units[v_buyer] + p_quantities[i] > v_sku.buyer_max;
        END IF;
        v_row := 1 + v_picked[i];
        CONTINUE WHEN v_free[v_row] < p_quantities[i];
        v_free[v_row] := v_free[v_row] - p_quantities[i];
        v_fence[v_row] := v_fence[v_row] + 1;
        v_shards[i] := v_picked[i];
        v_fences[i] := v_fence[v_row];
        v_outcomes[i] := 'granted';
        IF v_buyer IS NOT NULL THEN
            v_units[v_buyer] := v_units[v_buyer] + p_quantities[i];
        END IF;
    END LOOP;
    RETURN QUERY SELECT * FROM stock_verbs.write_holds(
        v_sku, v_now, v_outcomes, p_holds, p_slots, p_fingerprints, p_quantities, p_lines, p_actors, p_owners, p_buyers,
        p_operations, v_fences, v_none, v_places, v_shards, p_quantities, v_none);
END $$;

-- Lock the sub-counters that the hashes pick, and say what they have: `picked` is each hash's sub-counter, `free` and `fences`
-- what stands in it, by shard + 1. One that is empty is not locked, and says 0. Where some sub-counters are inactive the hashes
-- pick among the others, so that a retry meets the same one.
CREATE OR REPLACE FUNCTION stock_verbs.lock_rows(
    p_sku stock.skus, p_hashes bigint[], OUT picked integer[], OUT free bigint[], OUT fences bigint[]
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_actives integer[];
    v_row     record;
BEGIN
    picked := array_fill(0, ARRAY[cardinality(p_hashes)]);
    free := array_fill(0::bigint, ARRAY[p_sku.shards]);
    fences := free;
    IF EXISTS (SELECT FROM stock.sub_counters WHERE sku_id = p_sku.id AND NOT active) THEN
        v_actives := ARRAY (SELECT shard FROM stock.sub_counters WHERE sku_id = p_sku.id AND active ORDER BY shard);
    END IF;
    FOR i IN 1 .. cardinality(p_hashes) LOOP
        picked[i] := CASE WHEN v_actives IS NULL THEN p_hashes[i] % p_sku.shards
                          ELSE coalesce(v_actives[1 + p_hashes[i] % nullif(cardinality(v_actives), 0)], 0) END;
    END LOOP;
    FOR v_row IN
        SELECT shard, total - held - sold AS units, fence FROM stock.sub_counters
         WHERE sku_id = p_sku.id AND shard = ANY (picked) AND active AND total - held - sold > 0
         ORDER BY shard FOR NO KEY UPDATE
    LOOP
        free[v_row.shard + 1] := v_row.units;
        fences[v_row.shard + 1] := v_row.fence;
    END LOOP;
END $$;

-- Lock the rows of the buyers whom the SKU's limit counts, ascending, and name them.
CREATE OR REPLACE FUNCTION stock_verbs.lock_buyers(p_sku stock.skus, p_buyers text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_names text[];
    v_lead  integer;
BEGIN
    v_names := ARRAY (SELECT DISTINCT buyer FROM unnest(p_buyers) AS buyer WHERE buyer IS NOT NULL ORDER BY 1);
    v_lead := (SELECT min(id) FROM stock.skus WHERE id = p_sku.id OR limit_group = p_sku.limit_group);
    INSERT INTO stock.buyers (sku_id, buyer) SELECT v_lead, name FROM unnest(v_names) AS name ORDER BY name ON CONFLICT DO NOTHING;
    PERFORM 1 FROM stock.buyers WHERE sku_id = v_lead AND buyer = ANY (v_names) ORDER BY buyer FOR NO KEY UPDATE;
    RETURN v_names;
END $$;

-- What each of the buyers has in the SKU's limit group, due holds included, and how many units of due holds are in it. A lane
-- counts them all: one that is due may be confirmed at this moment, by a clock that was read in time.
CREATE OR REPLACE FUNCTION stock_verbs.buyers_units(
    p_sku stock.skus, p_names text[], p_now timestamptz, OUT units bigint[], OUT due bigint[]
) LANGUAGE sql STABLE AS $$
    SELECT array_agg(had.units ORDER BY place), array_agg(had.due ORDER BY place)
      FROM unnest(p_names) WITH ORDINALITY AS counted (buyer, place)
     CROSS JOIN LATERAL stock_verbs.buyer_units(p_sku.id, p_sku.limit_group, counted.buyer, p_now) AS had
$$;
