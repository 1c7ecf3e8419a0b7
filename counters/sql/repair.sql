-- Make one SKU's counters and seats say again what its holds, sales and ledger say.
--
-- p_dry: only tell. Answers one row for each repair: place, what, from, to, and whether it was done. What is not done needs a
-- person: a seat that two holds claim, a missing row, or more units given than there are.
-- Truth is, for held and sold, the holds and sales; for totals, the ledger. Where the ledger too disagrees, the repair's
-- ledger row carries the difference, so that replaying it gives the truth again; else its deltas are zero and it only records.
-- Safe under races: locks all sub-counters, then all seats, ascending, before it looks; nothing moves meanwhile.
CREATE OR REPLACE FUNCTION stock_verbs.repair(p_sku integer, p_dry boolean, p_operation uuid, p_actor text)
RETURNS TABLE (place text, what text, was text, became text, done boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
    v_total bigint;
BEGIN
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku ORDER BY shard FOR NO KEY UPDATE;
    PERFORM 1 FROM stock.seats WHERE sku_id = p_sku ORDER BY seat FOR NO KEY UPDATE;

    FOR v IN SELECT * FROM stock_verbs.counter_truth(p_sku) AS counter
              WHERE (counter.held, counter.sold) <> (counter.true_held, counter.true_sold)
                 OR (counter.total, counter.allowance, counter.true_held, counter.true_sold)
                    <> (counter.ledger_total, counter.ledger_allowance, counter.ledger_held, counter.ledger_sold)
    LOOP
        place := 'sub-counter ' || v.shard;
        what := 'total, held, sold';
        was := concat_ws(', ', v.total, v.held, v.sold);
        became := concat_ws(', ', v.ledger_total, v.true_held, v.true_sold);
        done := NOT p_dry AND NOT v.missing AND v.true_held + v.true_sold <= v.ledger_total + v.ledger_allowance;
        IF done THEN
            UPDATE stock.sub_counters
               SET total = v.ledger_total, allowance = v.ledger_allowance, held = v.true_held, sold = v.true_sold
             WHERE sku_id = p_sku AND shard = v.shard;
            INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, held_delta, sold_delta, actor, reason)
            VALUES (p_sku, p_operation, 'repair', v.shard, v.true_held - v.ledger_held, v.true_sold - v.ledger_sold,
                    p_actor, format('%s: %s became %s', what, was, became));
        END IF;
        RETURN NEXT;
    END LOOP;

    FOR v IN SELECT * FROM stock_verbs.seat_truth(p_sku) AS seat
              WHERE seat.state <> seat.true_state OR seat.hold_id IS DISTINCT FROM seat.true_hold OR seat.ledger_state <> seat.true_state
    LOOP
        place := 'seat ' || v.seat;
        what := 'state';
        was := v.state;
        became := v.true_state;
        done := NOT p_dry AND v.state <> 'missing' AND v.claims <= 1;
        IF done THEN
            UPDATE stock.seats SET state = v.true_state, hold_id = v.true_hold WHERE sku_id = p_sku AND seat = v.seat;
            INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, actor, reason)
            VALUES (p_sku, p_operation, 'repair', -1, ARRAY[v.seat], v.true_state, p_actor, format('%s became %s', was, became));
        END IF;
        RETURN NEXT;
    END LOOP;

    SELECT sum(counter.total) INTO v_total FROM stock.sub_counters AS counter WHERE counter.sku_id = p_sku;
    FOR v IN SELECT * FROM stock.skus AS sku WHERE sku.id = p_sku AND sku.kind = 'fungible' AND sku.total <> v_total FOR NO KEY UPDATE LOOP
        place := 'sku';
        what := 'stated total';
        was := v.total::text;
        became := v_total::text;
        done := NOT p_dry;
        IF done THEN
            UPDATE stock.skus AS sku SET total = v_total WHERE sku.id = p_sku;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
