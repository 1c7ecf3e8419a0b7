-- Move the units of holds that end: back to stock (released, expired) or to sold. Shared by confirm, release, expire_due and
-- the other verbs that end holds; never called from outside.
--
-- p_skus, p_holds: the holds, as parallel arrays in ascending order of p_holds; the caller has locked their rows, judged that
-- they may end so, and then locked their parts. p_state: 'released', 'expired' or 'sold'. p_actors: for the ledger, one a hold;
-- p_reason: for all of them. p_operations: one a hold, or null for one of its own for each. p_now: the moment of the move. For
-- 'sold' also, one a hold: p_sales, the sales' ids, and p_promised, the units that each sale must move. Answers the number of
-- units moved.
-- Safe under races: nothing is moved that the caller has not locked in the one order. Rows are found as lock_holds says.
CREATE OR REPLACE FUNCTION stock_verbs.finish(
    p_skus integer[], p_holds uuid[], p_state text, p_actors text[], p_reason text,
    p_operations uuid[] DEFAULT NULL, p_now timestamptz DEFAULT clock_timestamp(), p_sales uuid[] DEFAULT NULL,
    p_promised bigint[] DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_nestloop = off AS $$
DECLARE
    v_sold  bigint := CASE p_state WHEN 'sold' THEN 1 ELSE 0 END;
    v_verb  text := CASE p_state WHEN 'sold' THEN 'confirm' WHEN 'released' THEN 'release' ELSE 'expire' END;
    v_seats text := CASE p_state WHEN 'sold' THEN 'sold' ELSE 'available' END;
    v_units bigint[];
    v_part  record;
BEGIN
    FOR v_part IN
        SELECT part.sku_id, part.shard, sum(part.quantity)::bigint AS units FROM stock.hold_parts AS part
         WHERE part.hold_id = ANY (p_holds) AND part.shard >= 0 GROUP BY part.sku_id, part.shard ORDER BY 1, 2
    LOOP
        UPDATE stock.sub_counters SET held = held - v_part.units, sold = sold + v_sold * v_part.units
         WHERE sku_id = v_part.sku_id AND shard = v_part.shard;
    END LOOP;
    UPDATE stock.seats SET state = v_seats, hold_id = CASE p_state WHEN 'sold' THEN hold_id END
     WHERE hold_id = ANY (p_holds);
    UPDATE stock.holds SET state = p_state, ended_at = p_now, stuck_since = NULL
     WHERE sku_id = ANY (p_skus) AND id = ANY (p_holds);
    IF p_state = 'sold' THEN
        INSERT INTO stock.sales (sku_id, id, hold_id, sold_at)
        SELECT ending.sku_id, ending.sale, ending.id, p_now FROM unnest(p_skus, p_holds, p_sales) AS ending (sku_id, id, sale);
    END IF;

    WITH operation AS MATERIALIZED (
        SELECT ending.id AS hold_id, coalesce(ending.operation, uuidv7()) AS id, ending.actor
          FROM unnest(p_holds, p_operations, p_actors) AS ending (id, operation, actor)
    ), written AS (
        INSERT INTO stock.ledger (
            sku_id, operation_id, verb, shard, seats, seat_state, held_delta, sold_delta, hold_id, actor, reason, at)
        SELECT part.sku_id, operation.id, v_verb, part.shard, part.seats, CASE WHEN part.seats IS NOT NULL THEN v_seats END,
               -part.quantity, v_sold * part.quantity, part.hold_id, operation.actor, p_reason, p_now
          FROM stock.hold_parts AS part JOIN operation ON operation.hold_id = part.hold_id
         WHERE part.hold_id = ANY (p_holds)
         ORDER BY part.hold_id, part.sku_id, part.shard
        RETURNING hold_id, -held_delta AS units
    )
    SELECT array_agg(moved.units ORDER BY moved.hold_id) INTO v_units
      FROM (SELECT hold_id, sum(units)::bigint AS units FROM written GROUP BY hold_id) AS moved;
    -- A sale must move what the buyer was promised: parts that were lost must not become a sale without units.
    IF p_state = 'sold' AND v_units IS DISTINCT FROM p_promised THEN
        RAISE EXCEPTION 'the units of a hold are not what it promised' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN coalesce((SELECT sum(units) FROM unnest(v_units) AS units), 0);
END $$;

-- Lock the parts of holds, after the holds themselves: sub-counters, then seats, each in ascending order.
CREATE OR REPLACE FUNCTION stock_verbs.lock_parts(p_skus integer[], p_holds uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    v_part record;
BEGIN
    FOR v_part IN
        SELECT DISTINCT part.sku_id, part.shard FROM stock.hold_parts AS part
         WHERE part.hold_id = ANY (p_holds) AND part.lead_sku_id = ANY (p_skus) AND part.shard >= 0 ORDER BY 1, 2
    LOOP
        PERFORM 1 FROM stock.sub_counters WHERE sku_id = v_part.sku_id AND shard = v_part.shard FOR NO KEY UPDATE;
    END LOOP;
    PERFORM 1 FROM stock.seats AS seat
      WHERE seat.hold_id = ANY (p_holds) ORDER BY seat.sku_id, seat.seat FOR NO KEY UPDATE;
END $$;
