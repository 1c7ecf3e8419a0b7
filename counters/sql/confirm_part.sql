-- Sell a part of a live hold, and give the rest back.
--
-- p_lines: what is sold, [{"sku", "quantity"} or {"sku", "seats": […]}], the lines of a SKU summed. p_caller: as in refusal.
-- p_sale: the sale's id. Answers one row:
--   done, replayed     the sale's document; confirming what is sold answers the same sale, whatever the key or lines
--   not-in-hold        answer = {lines: places (from 0) of the lines that are not a part of the hold}
--   key-reused, not-found, stale-fence, hold-expired, hold-released
-- Safe under races: the hold's row is locked first, the clock read after; then the sub-counters and seats of its parts, then
-- the key; nothing moves before. All ledger rows carry one operation.
CREATE OR REPLACE FUNCTION stock_verbs.confirm_part(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, p_lines json,
    p_slot uuid, p_fingerprint bytea, p_operation uuid, p_sale uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v       record;
    v_hold  stock.holds;
    v_named record;
BEGIN
    SELECT * INTO v FROM stock_verbs.lock_hold(p_sku, p_hold, p_fence, p_caller);
    v_hold := v.hold;
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    outcome := coalesce(v.refusal, stock_verbs.ended(v_hold, v.now), 'done');
    IF outcome = 'hold-sold' THEN
        outcome := 'replayed';
        answer := stock_verbs.sale_document(p_sku, p_hold);
    ELSIF outcome = 'done' THEN
        SELECT * INTO v_named FROM stock_verbs.named_wants(p_hold, p_lines);
        IF v_named.strangers IS NOT NULL THEN
            outcome := 'not-in-hold';
            answer := json_build_object('lines', v_named.strangers)::text;
        ELSE
            PERFORM stock_verbs.lock_parts(ARRAY[p_sku], ARRAY[p_hold]);
            v_hold.backordered := v_named.backordered;
            answer := stock_verbs.sale_text(p_sale, v_hold, v.now, p_lines::text, NULL::timestamptz, NULL::text);
            INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)
            VALUES (p_sku, p_slot, p_fingerprint, answer, p_operation, p_hold) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RETURN QUERY SELECT * FROM stock_verbs.recorded_first(p_sku, p_slot, p_fingerprint, p_operation);
                RETURN;
            END IF;
            PERFORM stock_verbs.let_go(p_hold, v_named.wants, p_caller, p_operation, v.now);
            PERFORM stock_verbs.sell_parts(v_hold, v_named.units, p_lines, p_caller, p_operation, v.now, p_sale);
        END IF;
    END IF;
    RETURN NEXT;
END $$;

-- What p_lines (null: all) ask of a hold: `wants` by SKU as reserve_cart takes them, `units` in all, how many of these are
-- `backordered` when the rest is let go, and `strangers`: the places (from 0) of lines that are no part of the hold, or null.
CREATE OR REPLACE FUNCTION stock_verbs.named_wants(
    p_hold uuid, p_lines json, OUT wants jsonb, OUT units bigint, OUT backordered bigint, OUT strangers integer[]
) LANGUAGE sql STABLE AS $$
    WITH part AS MATERIALIZED (
        SELECT part.sku_id, sku.name, sum(part.quantity)::bigint AS units, sum(part.backordered)::bigint AS backordered,
               bool_or(part.shard = -1) AS seated
          FROM stock.hold_parts AS part JOIN stock.skus AS sku ON sku.id = part.sku_id
         WHERE part.hold_id = p_hold GROUP BY part.sku_id, sku.name
    ), seat AS MATERIALIZED (
        SELECT part.sku_id, named.seat FROM stock.hold_parts AS part CROSS JOIN LATERAL unnest(part.seats) AS named (seat)
         WHERE part.hold_id = p_hold AND part.shard = -1
    ), line AS (
        SELECT asked.place::integer - 1 AS place, asked.line ->> 'sku' AS name,
               (asked.line ->> 'quantity')::bigint AS quantity, asked.line -> 'seats' AS seats
          FROM json_array_elements(p_lines) WITH ORDINALITY AS asked (line, place)
    ), judged AS (
        SELECT line.place, part.sku_id, part.seated, line.quantity, line.seats,
               coalesce(CASE WHEN part.seated
                    THEN NOT EXISTS (SELECT FROM json_array_elements_text(line.seats) AS asked WHERE NOT EXISTS (
                                     SELECT FROM seat WHERE seat.sku_id = part.sku_id AND seat.seat = asked))
                    ELSE sum(line.quantity) OVER (PARTITION BY part.sku_id ORDER BY line.place) <= part.units END
                   AND (line.seats IS NOT NULL) = part.seated, false) AS known
          FROM line LEFT JOIN part ON part.name = line.name
    ), want AS (
        SELECT sku_id, units, (SELECT jsonb_agg(seat) FROM seat WHERE seat.sku_id = part.sku_id) AS seats
          FROM part WHERE p_lines IS NULL
        UNION ALL
        SELECT sku_id, sum(quantity), NULL FROM judged WHERE NOT seated GROUP BY sku_id
        UNION ALL
        SELECT sku_id, count(DISTINCT asked), jsonb_agg(DISTINCT asked)
          FROM judged CROSS JOIN LATERAL json_array_elements_text(seats) AS asked WHERE seated GROUP BY sku_id
    )
    SELECT jsonb_agg(CASE WHEN want.seats IS NULL THEN jsonb_build_object('sku_id', want.sku_id, 'quantity', want.units)
                          ELSE jsonb_build_object('sku_id', want.sku_id, 'seats', want.seats) END),
           sum(want.units)::bigint, sum(greatest(0, want.units - (part.units - part.backordered)))::bigint,
           (SELECT array_agg(place ORDER BY place) FROM judged WHERE NOT known)
      FROM want JOIN part USING (sku_id)
$$;

-- Give back what p_wants leave over of a hold's parts, backordered units before others; the caller holds the locks.
CREATE OR REPLACE FUNCTION stock_verbs.let_go(
    p_hold uuid, p_wants jsonb, p_actor text, p_operation uuid, p_now timestamptz
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_part record;
BEGIN
    FOR v_part IN
        WITH part AS (
            SELECT part.sku_id, part.shard, part.quantity, part.backordered, part.seats, want.seats AS wanted,
                   sum(part.quantity) OVER sku - coalesce(want.quantity, 0) AS excess,
                   sum(part.backordered) OVER sku AS backs,
                   coalesce(sum(part.backordered) OVER earlier, 0) AS backs_before,
                   coalesce(sum(part.quantity - part.backordered) OVER earlier, 0) AS firm_before
              FROM stock.hold_parts AS part LEFT JOIN stock_verbs.wants(p_wants) AS want ON want.sku_id = part.sku_id
             WHERE part.hold_id = p_hold
            WINDOW sku AS (PARTITION BY part.sku_id),
                   earlier AS (PARTITION BY part.sku_id ORDER BY part.shard ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ), gone AS (
            SELECT sku_id, shard, quantity,
                   CASE WHEN seats IS NOT NULL
                        THEN ARRAY (SELECT unnest(seats) EXCEPT SELECT unnest(wanted) ORDER BY 1) END AS seats,
                   greatest(0, least(backordered, excess - backs_before))::bigint AS backs,
                   greatest(0, least(quantity - backordered, excess - backs - firm_before))::bigint AS firm
              FROM part
        )
        SELECT sku_id, shard, seats, backs, backs + firm AS units, quantity > backs + firm AS stays
          FROM gone WHERE backs + firm > 0 ORDER BY sku_id, shard
    LOOP
        IF v_part.stays THEN
            UPDATE stock.hold_parts
               SET quantity = quantity - v_part.units, backordered = backordered - v_part.backs,
                   seats = CASE WHEN seats IS NOT NULL
                                THEN ARRAY (SELECT unnest(seats) EXCEPT SELECT unnest(v_part.seats) ORDER BY 1) END
             WHERE sku_id = v_part.sku_id AND hold_id = p_hold AND shard = v_part.shard;
        ELSE
            DELETE FROM stock.hold_parts WHERE sku_id = v_part.sku_id AND hold_id = p_hold AND shard = v_part.shard;
        END IF;
        UPDATE stock.sub_counters SET held = held - v_part.units WHERE sku_id = v_part.sku_id AND shard = v_part.shard;
        UPDATE stock.seats SET state = 'available', hold_id = NULL
         WHERE sku_id = v_part.sku_id AND seat = ANY (v_part.seats) AND hold_id = p_hold;
        INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, held_delta, hold_id, actor, at)
        VALUES (v_part.sku_id, p_operation, 'release', v_part.shard, v_part.seats,
                CASE WHEN v_part.seats IS NOT NULL THEN 'available' END, -v_part.units, p_hold, p_actor, p_now);
    END LOOP;
END $$;

-- Sell the p_units that a hold's parts have now, as p_lines where these are fewer than it promised.
CREATE OR REPLACE FUNCTION stock_verbs.sell_parts(
    p_hold stock.holds, p_units bigint, p_lines json, p_actor text, p_operation uuid, p_now timestamptz, p_sale uuid
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM stock_verbs.finish(ARRAY[p_hold.sku_id], ARRAY[p_hold.id], 'sold', ARRAY[p_actor], NULL, ARRAY[p_operation],
                               p_now, ARRAY[p_sale], ARRAY[p_units]);
    UPDATE stock.holds SET backordered = p_hold.backordered WHERE sku_id = p_hold.sku_id AND id = p_hold.id;
    UPDATE stock.sales SET lines = p_lines WHERE sku_id = p_hold.sku_id AND id = p_sale AND p_units < p_hold.quantity;
END $$;
