-- Move the units of holds that end: back to stock (released, expired) or to sold. Shared by confirm, release, expire_due
-- and resolve; never called from outside.
--
-- p_skus, p_holds: the holds, as parallel arrays; the caller has locked their rows and judged that they may end so.
-- p_state: 'released', 'expired' or 'sold'. p_actor, p_reason: for the ledger; p_operation too, null for one of its own for
-- each hold. Answers the number of units moved.
-- Safe under races: after the holds, lock_parts locks sub-counters and then seats in ascending order before any changes.
CREATE OR REPLACE FUNCTION stock_verbs.finish(
    p_skus integer[], p_holds uuid[], p_state text, p_actor text, p_reason text, p_operation uuid DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_units bigint;
    v_sold  bigint := CASE p_state WHEN 'sold' THEN 1 ELSE 0 END;
    v_verb  text := CASE p_state WHEN 'sold' THEN 'confirm' WHEN 'released' THEN 'release' ELSE 'expire' END;
    v_now   timestamptz := clock_timestamp();
BEGIN
    PERFORM stock_verbs.lock_parts(p_skus, p_holds);
    UPDATE stock.sub_counters AS counter
       SET held = counter.held - part.units, sold = counter.sold + v_sold * part.units
      FROM (SELECT sku_id, shard, sum(quantity)::bigint AS units FROM stock.hold_parts
             WHERE hold_id = ANY (p_holds) AND shard >= 0 GROUP BY sku_id, shard) AS part
     WHERE counter.sku_id = part.sku_id AND counter.shard = part.shard;
    UPDATE stock.seats
       SET state = CASE p_state WHEN 'sold' THEN 'sold' ELSE 'available' END,
           hold_id = CASE p_state WHEN 'sold' THEN hold_id END
     WHERE hold_id = ANY (p_holds);
    UPDATE stock.holds AS hold
       SET state = p_state, ended_at = v_now, stuck_since = NULL
      FROM unnest(p_skus, p_holds) AS ending (sku_id, id)
     WHERE hold.sku_id = ending.sku_id AND hold.id = ending.id;
    IF p_state = 'sold' THEN
        INSERT INTO stock.sales (sku_id, id, hold_id, sold_at)
        SELECT ending.sku_id, uuidv7(), ending.id, v_now FROM unnest(p_skus, p_holds) AS ending (sku_id, id);
    END IF;

    WITH operation AS MATERIALIZED (
        SELECT ending.id AS hold_id, coalesce(p_operation, uuidv7()) AS id FROM unnest(p_holds) AS ending (id)
    ), written AS (
        INSERT INTO stock.ledger (
            sku_id, operation_id, verb, shard, seats, seat_state, held_delta, sold_delta, hold_id, actor, reason, at)
        SELECT part.sku_id, operation.id, v_verb, part.shard, part.seats,
               CASE WHEN part.seats IS NOT NULL THEN CASE p_state WHEN 'sold' THEN 'sold' ELSE 'available' END END,
               -part.quantity, v_sold * part.quantity, part.hold_id, p_actor, p_reason, v_now
          FROM stock.hold_parts AS part JOIN operation ON operation.hold_id = part.hold_id
         ORDER BY part.hold_id, part.sku_id, part.shard
        RETURNING -held_delta AS units
    )
    SELECT coalesce(sum(units), 0) INTO v_units FROM written;
    -- A sale must move what the buyer was promised: parts that were lost must not become a sale without units.
    IF p_state = 'sold' AND v_units <> (
        SELECT sum(coalesce((line ->> 'quantity')::bigint, json_array_length(line -> 'seats')))
          FROM unnest(p_skus, p_holds) AS ending (sku_id, id)
          JOIN stock.holds AS hold ON hold.sku_id = ending.sku_id AND hold.id = ending.id
         CROSS JOIN LATERAL json_array_elements(hold.lines) AS line)
    THEN
        RAISE EXCEPTION 'the units of a hold are not what it promised' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN v_units;
END $$;

-- Lock the sub-counters and seats of holds, in the one order.
CREATE OR REPLACE FUNCTION stock_verbs.lock_parts(p_skus integer[], p_holds uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock.sub_counters AS counter
      WHERE (counter.sku_id, counter.shard) IN (
            SELECT part.sku_id, part.shard FROM stock.hold_parts AS part
             WHERE part.hold_id = ANY (p_holds) AND part.lead_sku_id = ANY (p_skus))
      ORDER BY counter.sku_id, counter.shard FOR NO KEY UPDATE;
    PERFORM 1 FROM stock.seats AS seat
      WHERE seat.hold_id = ANY (p_holds) ORDER BY seat.sku_id, seat.seat FOR NO KEY UPDATE;
END $$;
