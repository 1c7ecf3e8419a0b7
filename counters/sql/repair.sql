-- Make one SKU's counters, seats and stated total say again what its holds, sales and ledger say.
--
-- p_dry: only tell. Answers one row for each repair: place, what, from, to, and whether it was done. What is not done needs a
-- person: a seat that two holds claim, a row that is gone, more units given than there are, witnesses who all differ.
-- Truth is, for held and sold, what the holds and sales say, if the counter or the replayed ledger says so too: where both
-- speak against them, rows were lost, and giving their units back could sell them twice. For totals it is what two of three
-- say: the stated total, the sum of the sub-counters and the replayed ledger; so a wrong ledger row makes no units.
-- Each repair is a ledger row that carries the ledger's own difference, so that replaying it gives the truth again; where the
-- ledger was right its deltas are zero.
-- Safe under races: locks the SKU, then all sub-counters, then all seats, ascending, before it looks; nothing moves meanwhile.
CREATE OR REPLACE FUNCTION stock_verbs.repair(p_sku integer, p_dry boolean, p_operation uuid, p_actor text)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock.skus WHERE id = p_sku FOR NO KEY UPDATE;
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku ORDER BY shard FOR NO KEY UPDATE;
    PERFORM 1 FROM stock.seats WHERE sku_id = p_sku ORDER BY seat FOR NO KEY UPDATE;
    RETURN QUERY SELECT * FROM stock_verbs.repair_counters(p_sku, p_dry, p_operation, p_actor);
    RETURN QUERY SELECT * FROM stock_verbs.repair_seats(p_sku, p_dry, p_operation, p_actor);
END $$;

-- The sub-counters' part of repair, and the stated total's; repair holds the locks.
CREATE OR REPLACE FUNCTION stock_verbs.repair_counters(p_sku integer, p_dry boolean, p_operation uuid, p_actor text)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v       record;
    v_sums  record;
    v_truth text;
BEGIN
    SELECT sku.total AS stated, sum(counter.total)::bigint AS counters, sum(counter.ledger_total)::bigint AS ledger
      INTO v_sums
      FROM stock.skus AS sku CROSS JOIN stock_verbs.counter_truth(p_sku) AS counter
     WHERE sku.id = p_sku AND sku.kind = 'fungible' GROUP BY sku.total;
    IF NOT FOUND THEN RETURN; END IF;
    v_truth := CASE
        WHEN v_sums.counters = v_sums.stated OR v_sums.counters = v_sums.ledger THEN 'counters'
        WHEN v_sums.ledger = v_sums.stated THEN 'ledger'
        ELSE 'disputed'
    END;

    FOR v IN
        SELECT counter.*,
               CASE v_truth WHEN 'ledger' THEN counter.ledger_total ELSE counter.total END AS true_total,
               CASE v_truth WHEN 'counters' THEN counter.total - counter.ledger_total ELSE 0 END AS ledger_lacks
          FROM stock_verbs.counter_truth(p_sku) AS counter
    LOOP
        CONTINUE WHEN (v.total, v.held, v.sold) = (v.true_total, v.true_held, v.true_sold)
            AND (v.ledger_lacks, v.allowance, v.true_held, v.true_sold) = (0, v.ledger_allowance, v.ledger_held, v.ledger_sold);
        place := 'sub-counter ' || v.shard;
        what := 'total, held, sold';
        was := concat_ws(', ', v.total, v.held, v.sold);
        became := concat_ws(', ', v.true_total, v.true_held, v.true_sold);
        done := NOT p_dry AND NOT v.missing AND v.true_held + v.true_sold <= v.true_total + v.allowance
            AND v.true_held IN (v.held, v.ledger_held) AND v.true_sold IN (v.sold, v.ledger_sold);
        IF done THEN
            UPDATE stock.sub_counters SET total = v.true_total, held = v.true_held, sold = v.true_sold
             WHERE sku_id = p_sku AND shard = v.shard;
            INSERT INTO stock.ledger (
                sku_id, operation_id, verb, shard, total_delta, allowance_delta, held_delta, sold_delta, actor, reason)
            VALUES (p_sku, p_operation, 'repair', v.shard, v.ledger_lacks, v.allowance - v.ledger_allowance,
                    v.true_held - v.ledger_held, v.true_sold - v.ledger_sold, p_actor,
                    format('%s: %s became %s', what, was, became));
        END IF;
        RETURN NEXT;
    END LOOP;

    IF v_truth = 'disputed' OR v_truth = 'counters' AND v_sums.counters <> v_sums.stated THEN
        place := 'sku';
        what := 'stated total';
        was := v_sums.stated::text;
        became := CASE v_truth WHEN 'disputed' THEN format('%s or %s', v_sums.counters, v_sums.ledger)
                  ELSE v_sums.counters::text END;
        done := NOT p_dry AND v_truth = 'counters';
        IF done THEN
            UPDATE stock.skus AS sku SET total = v_sums.counters WHERE sku.id = p_sku;
        END IF;
        RETURN NEXT;
    END IF;
END $$;

-- The seats' part of repair; repair holds the locks.
CREATE OR REPLACE FUNCTION stock_verbs.repair_seats(p_sku integer, p_dry boolean, p_operation uuid, p_actor text)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT * FROM stock_verbs.seat_truth(p_sku) AS seat
              WHERE (seat.state, seat.ledger_state) <> (seat.true_state, seat.true_state)
                 OR seat.hold_id IS DISTINCT FROM seat.true_hold
    LOOP
        place := 'seat ' || v.seat;
        what := 'state';
        was := v.state;
        became := v.true_state;
        done := NOT p_dry AND 'missing' NOT IN (v.state, v.ledger_state) AND v.claims <= 1
            AND v.true_state IN (v.state, v.ledger_state);
        IF done THEN
            UPDATE stock.seats SET state = v.true_state, hold_id = v.true_hold WHERE sku_id = p_sku AND seat = v.seat;
            INSERT INTO stock.ledger (
                sku_id, operation_id, verb, shard, seats, seat_state, held_delta, sold_delta, actor, reason)
            VALUES (p_sku, p_operation, 'repair', -1, ARRAY[v.seat], v.true_state,
                    (v.true_state = 'held')::integer - (v.ledger_state = 'held')::integer,
                    (v.true_state = 'sold')::integer - (v.ledger_state = 'sold')::integer,
                    p_actor, format('%s: %s became %s', what, was, became));
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
