-- Make one SKU's counters, seats and stated total say again what its holds, sales and ledger say.
--
-- p_dry: only tell. Answers one row for each repair: place, what, from, to, and whether it was done. What is not done needs a
-- person: a seat that two holds claim, a row that is gone, more units given than there are, witnesses who all differ.
-- Truth is, for held and sold, what the holds and sales say, if the counter or the replayed ledger says so too: where both
-- speak against them, rows were lost, and giving their units back could sell them twice. For totals and allowances it is what
-- two of three say: the stated figure, the sum of the sub-counters and the replayed ledger; so a wrong ledger row makes no units.
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

-- What a fungible SKU states of its total and its allowance, what its sub-counters and the replayed ledger say, and whom to
-- believe: 'counters', 'ledger', or 'nobody' where all three differ.
CREATE OR REPLACE FUNCTION stock_verbs.stated_truth(p_sku integer)
RETURNS TABLE (name text, stated bigint, counters bigint, ledger bigint, believed text) LANGUAGE sql STABLE AS $$
    SELECT figure.*, CASE
               WHEN figure.counters IN (figure.stated, figure.ledger) THEN 'counters'
               WHEN figure.ledger = figure.stated THEN 'ledger'
               ELSE 'nobody' END
      FROM stock.skus AS sku
     CROSS JOIN LATERAL (
           SELECT sum(total) AS total, sum(allowance) AS allowance,
                  sum(ledger_total) AS ledger_total, sum(ledger_allowance) AS ledger_allowance
             FROM stock_verbs.counter_truth(p_sku)) AS summed
     CROSS JOIN LATERAL (VALUES
           ('total', sku.total, summed.total::bigint, summed.ledger_total::bigint),
           ('allowance', sku.oversell_allowance, summed.allowance::bigint, summed.ledger_allowance::bigint)
           ) AS figure (name, stated, counters, ledger)
     WHERE sku.id = p_sku AND sku.kind = 'fungible'
$$;

-- The sub-counters' part of repair, and the stated figures'; repair holds the locks.
CREATE OR REPLACE FUNCTION stock_verbs.repair_counters(p_sku integer, p_dry boolean, p_operation uuid, p_actor text)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v         record;
    v_total   text;  -- whom to believe
    v_allowed text;
BEGIN
    SELECT max(believed) FILTER (WHERE name = 'total'), max(believed) FILTER (WHERE name = 'allowance')
      INTO v_total, v_allowed FROM stock_verbs.stated_truth(p_sku);
    -- The stated figures are judged by the sub-counters as they are now, before any of them is mended.
    RETURN QUERY SELECT * FROM stock_verbs.repair_stated(p_sku, p_dry);
    FOR v IN
        SELECT counter.*,
               CASE v_total WHEN 'ledger' THEN ledger_total ELSE total END AS true_total,
               CASE v_allowed WHEN 'ledger' THEN ledger_allowance ELSE allowance END AS true_allowance,
               CASE v_total WHEN 'counters' THEN total - ledger_total ELSE 0 END AS total_lacks,
               CASE v_allowed WHEN 'counters' THEN allowance - ledger_allowance ELSE 0 END AS allowance_lacks
          FROM stock_verbs.counter_truth(p_sku) AS counter
    LOOP
        CONTINUE WHEN (v.total, v.allowance, v.held, v.sold) = (v.true_total, v.true_allowance, v.true_held, v.true_sold)
            AND (v.total_lacks, v.allowance_lacks, v.true_held, v.true_sold) = (0, 0, v.ledger_held, v.ledger_sold);
        place := 'sub-counter ' || v.shard;
        what := 'total, allowance, held, sold';
        was := concat_ws(', ', v.total, v.allowance, v.held, v.sold);
        became := concat_ws(', ', v.true_total, v.true_allowance, v.true_held, v.true_sold);
        done := NOT p_dry AND NOT v.missing AND v.true_held + v.true_sold <= v.true_total + v.true_allowance
            AND v.true_held IN (v.held, v.ledger_held) AND v.true_sold IN (v.sold, v.ledger_sold);
        IF done THEN
            UPDATE stock.sub_counters
               SET total = v.true_total, allowance = v.true_allowance, held = v.true_held, sold = v.true_sold
             WHERE sku_id = p_sku AND shard = v.shard;
            INSERT INTO stock.ledger (
                sku_id, operation_id, verb, shard, total_delta, allowance_delta, held_delta, sold_delta, actor, reason)
            VALUES (p_sku, p_operation, 'repair', v.shard, v.total_lacks, v.allowance_lacks,
                    v.true_held - v.ledger_held, v.true_sold - v.ledger_sold, p_actor,
                    format('%s: %s became %s', what, was, became));
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- The stated total and allowance: where the sub-counters are believed, they say what is stated.
CREATE OR REPLACE FUNCTION stock_verbs.repair_stated(p_sku integer, p_dry boolean)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT * FROM stock_verbs.stated_truth(p_sku) AS truth
              WHERE truth.believed = 'nobody' OR truth.believed = 'counters' AND truth.counters <> truth.stated
    LOOP
        place := 'sku';
        what := 'stated ' || v.name;
        was := v.stated::text;
        became := CASE v.believed WHEN 'nobody' THEN format('%s or %s', v.counters, v.ledger) ELSE v.counters::text END;
        done := NOT p_dry AND v.believed = 'counters' AND (  -- a policy that forbids it is a person's to change
            v.name = 'total' OR v.counters = 0 OR (SELECT oversell_policy FROM stock.skus WHERE id = p_sku) = 'bounded');
        IF done THEN
            UPDATE stock.skus AS sku
               SET total = CASE v.name WHEN 'total' THEN v.counters ELSE sku.total END,
                   oversell_allowance = CASE v.name WHEN 'allowance' THEN v.counters ELSE sku.oversell_allowance END
             WHERE sku.id = p_sku;
        END IF;
        RETURN NEXT;
    END LOOP;
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
