-- Take an expired hold's units again and sell them at once, where they are still free.
--
-- p_lines: the part of it that is wanted, as in confirm_part, or null for all. p_caller: as in refusal. p_sale: the sale's id.
-- Answers one row, all or nothing:
--   done, replayed     the sale's document, with the hold's new fence; what is sold answers the same sale
--   hold-expired       answer = {reacquired: false, reason, …}; reason is not-on-sale, buyer-limit, seat-taken, sold-out or
--                      insufficient-stock, and the rest what reserve_cart says of it
--   reclaim            what is missing is in due, unswept holds, or the hold lives after all (a clock was set back);
--                      answer = {sku_ids}: run expire_due for these, then confirm again
--   not-in-hold        as in confirm_part
--   key-reused, not-found, stale-fence, hold-released
-- Safe under races: locks are taken in the one order: the hold, its buyer's rows, all sub-counters of its SKUs, the seats, the
-- key. A hold that is due but unswept expires under these locks first, so nobody comes between. The new fence is larger than
-- any on the rows that it takes; limits are counted anew, as for whoever reserves now.
CREATE OR REPLACE FUNCTION stock_verbs.reacquire(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, p_lines json,
    p_slot uuid, p_fingerprint bytea, p_operation uuid, p_sale uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v       record;
    v_hold  stock.holds;
    v_now   timestamptz;
    v_named record;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    SELECT * INTO v_named FROM stock_verbs.named_wants(p_hold, p_lines);
    outcome := coalesce(v.refusal, stock_verbs.ended(v_hold, v.now), 'reclaim');
    IF outcome = 'hold-sold' THEN
        outcome := 'replayed';
        answer := stock_verbs.sale_document(p_sku, p_hold);
    ELSIF outcome = 'hold-expired' AND v_named.strangers IS NOT NULL THEN
        outcome := 'not-in-hold';
        answer := json_build_object('lines', v_named.strangers)::text;
    ELSIF outcome = 'hold-expired' THEN
        v_now := stock_verbs.lock_again(v_hold);
        IF v_hold.state = 'held' THEN
            PERFORM stock_verbs.finish(ARRAY[p_sku], ARRAY[p_hold], 'expired', ARRAY[p_caller], NULL);
        END IF;
        SELECT * INTO outcome, answer FROM stock_verbs.again_refusal(v_hold, v_named.wants, v_now);
        IF outcome IS NULL THEN
            v_hold := stock_verbs.renewed(v_hold, v_named.wants);
            outcome := 'done';
            answer := stock_verbs.sale_text(
                p_sale, v_hold, v_now, coalesce(p_lines, v_hold.lines)::text, NULL::timestamptz, NULL::text);
            INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)
            VALUES (p_sku, p_slot, p_fingerprint, answer, p_operation, p_hold) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RETURN QUERY SELECT * FROM stock_verbs.recorded_first(p_sku, p_slot, p_fingerprint, p_operation);
                RETURN;
            END IF;
            PERFORM stock_verbs.take_again(v_hold, v_named.wants, p_caller, p_operation, v_now);
            PERFORM stock_verbs.sell_parts(
                v_hold, CASE WHEN p_lines IS NULL THEN v_hold.quantity ELSE v_named.units END,
                p_lines, p_caller, p_operation, v_now, p_sale);
        END IF;
    END IF;
    IF outcome = 'reclaim' THEN
        answer := json_build_object('sku_ids', coalesce(answer::json, (
            SELECT json_agg(DISTINCT sku_id) FROM stock.hold_parts WHERE hold_id = p_hold)))::text;
    END IF;
    RETURN NEXT;
END $$;

-- Lock what a hold had and could take again, in the one order after the hold itself; answers the clock as read then.
CREATE OR REPLACE FUNCTION stock_verbs.lock_again(p_hold stock.holds) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_skus integer[] := ARRAY (SELECT DISTINCT sku_id FROM stock.hold_parts WHERE hold_id = p_hold.id);
    v_part record;
BEGIN
    PERFORM stock_verbs.lock_buyer(v_skus, p_hold.buyer);
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = ANY (v_skus) ORDER BY sku_id, shard FOR NO KEY UPDATE;
    FOR v_part IN SELECT sku_id, seats FROM stock.hold_parts WHERE hold_id = p_hold.id AND shard = -1 ORDER BY sku_id LOOP
        PERFORM 1 FROM stock.seats
          WHERE sku_id = v_part.sku_id AND seat = ANY (v_part.seats) ORDER BY seat FOR NO KEY UPDATE;
    END LOOP;
    RETURN clock_timestamp();
END $$;

-- Why the wants of an expired hold cannot be taken again at p_now: an outcome of reacquire with its answer, or (null, null).
CREATE OR REPLACE FUNCTION stock_verbs.again_refusal(
    p_hold stock.holds, p_wants jsonb, p_now timestamptz, OUT outcome text, OUT answer text
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT 'not-on-sale', json_build_object('sku', sku.name)::text INTO outcome, answer
      FROM stock_verbs.wants(p_wants) AS want JOIN stock.skus AS sku ON sku.id = want.sku_id
     WHERE stock_verbs.sale_refusal(sku, sku.room, p_now) IS NOT NULL ORDER BY sku.id LIMIT 1;
    IF outcome IS NULL THEN
        SELECT * INTO outcome, answer FROM stock_verbs.wants_refusal(p_wants, p_hold.buyer, p_now);
    END IF;
    IF outcome <> 'reclaim' THEN
        answer := jsonb_build_object('reacquired', false, 'reason', CASE outcome
            WHEN 'buyer-missing' THEN 'buyer-limit' WHEN 'no-such-seat' THEN 'seat-taken' ELSE outcome END) || answer::jsonb;
        outcome := 'hold-expired';
    END IF;
END $$;

-- An expired hold as it will be once it has taken its wants again: its new fence, and how many units are backordered then.
CREATE OR REPLACE FUNCTION stock_verbs.renewed(p_hold stock.holds, p_wants jsonb) RETURNS stock.holds
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT 1 + greatest(p_hold.fence, max(counter.fence), max(seat.fence)), coalesce(sum(counter.backs), 0)
      INTO p_hold.fence, p_hold.backordered
      FROM stock_verbs.wants(p_wants) AS want
     CROSS JOIN LATERAL (
           SELECT max(fence) AS fence,
                  greatest(0, want.quantity - sum(greatest(0, total - held - sold)) FILTER (WHERE want.seats IS NULL)) AS backs
             FROM stock.sub_counters WHERE sku_id = want.sku_id) AS counter
     CROSS JOIN LATERAL (
           SELECT max(fence) AS fence FROM stock.seats WHERE sku_id = want.sku_id AND seat = ANY (want.seats)) AS seat;
    RETURN p_hold;
END $$;

-- Move the wants of an expired hold from available to held, and the hold with them; the caller holds the locks and knows that
-- there is enough. Units come from the sub-counters that they came from before, then from the fullest, and beyond the total last.
CREATE OR REPLACE FUNCTION stock_verbs.take_again(
    p_hold stock.holds, p_wants jsonb, p_actor text, p_operation uuid, p_now timestamptz
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_parts stock.hold_parts[];
    v_part  stock.hold_parts;
BEGIN
    v_parts := ARRAY (SELECT part FROM stock_verbs.parts_again(p_hold, p_wants) AS part ORDER BY part.sku_id, part.shard);
    DELETE FROM stock.hold_parts WHERE hold_id = p_hold.id;
    UPDATE stock.holds SET state = 'held', ended_at = NULL, fence = p_hold.fence
     WHERE sku_id = p_hold.sku_id AND id = p_hold.id;
    FOREACH v_part IN ARRAY v_parts LOOP
        UPDATE stock.sub_counters SET held = held + v_part.quantity, fence = p_hold.fence
         WHERE sku_id = v_part.sku_id AND shard = v_part.shard;
        UPDATE stock.seats SET state = 'held', hold_id = p_hold.id, fence = p_hold.fence
         WHERE sku_id = v_part.sku_id AND seat = ANY (v_part.seats) AND state = 'available';
        INSERT INTO stock.hold_parts SELECT v_part.*;
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, held_delta, hold_id, actor, at)
        VALUES (v_part.sku_id, p_operation, 'reacquire', v_part.shard, v_part.seats,
                CASE WHEN v_part.seats IS NOT NULL THEN 'held' END, v_part.quantity, p_hold.id, p_actor, p_now);
    END LOOP;
END $$;

-- The parts that the wants of an expired hold would take now.
CREATE OR REPLACE FUNCTION stock_verbs.parts_again(p_hold stock.holds, p_wants jsonb) RETURNS SETOF stock.hold_parts
LANGUAGE sql STABLE AS $$
    WITH want AS MATERIALIZED (
        SELECT * FROM stock_verbs.wants(p_wants)
    ), piece AS (
        SELECT want.sku_id, want.quantity AS wanted, counter.shard, part.shard IS NULL AS elsewhere, offered.units, offered.beyond
          FROM want JOIN stock.sub_counters AS counter ON counter.sku_id = want.sku_id
          LEFT JOIN stock.hold_parts AS part
                 ON part.sku_id = counter.sku_id AND part.hold_id = p_hold.id AND part.shard = counter.shard
         CROSS JOIN LATERAL (VALUES
               (greatest(0, counter.total - counter.held - counter.sold), false),
               (least(counter.allowance, counter.total + counter.allowance - counter.held - counter.sold), true)
               ) AS offered (units, beyond)
         WHERE want.seats IS NULL AND offered.units > 0
    ), queued AS (
        SELECT sku_id, shard, beyond, wanted, units, sum(units) OVER (
               PARTITION BY sku_id ORDER BY beyond, elsewhere, units DESC, shard) - units AS before
          FROM piece
    ), taken AS (
        SELECT sku_id, shard, sum(least(units, wanted - before))::bigint AS units,
               coalesce(sum(least(units, wanted - before)) FILTER (WHERE beyond), 0)::bigint AS backs
          FROM queued WHERE before < wanted GROUP BY sku_id, shard
    ), chosen AS (
        SELECT sku_id, shard, units, NULL::text[] AS seats, backs FROM taken
        UNION ALL SELECT sku_id, -1, quantity, seats, 0 FROM want WHERE seats IS NOT NULL
    )
    SELECT sku_id, p_hold.id, shard, p_hold.sku_id, units, seats, p_hold.buyer, backs
      FROM chosen
$$;
