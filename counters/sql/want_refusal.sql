-- Why one SKU's part of a cart cannot be granted at p_now, judged under the locks that reserve_tail holds.
--
-- p_seats null: p_quantity units of a fungible SKU; else those seats. Answers one row: (null, null) when it can be
-- granted, else an outcome of reserve_tail with its answer. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.want_refusal(
    p_sku integer, p_quantity bigint, p_seats text[], p_buyer text, p_now timestamptz,
    OUT outcome text, OUT answer text
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_sku   stock.skus;
    v_free  bigint;
    v_due   bigint;
    v_taken bigint;
    v_seats text[];
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku;
    IF v_sku.buyer_max IS NOT NULL AND p_buyer IS NOT NULL THEN
        SELECT coalesce(sum(part.quantity), 0) INTO v_taken
          FROM stock.skus AS member
          JOIN stock.hold_parts AS part ON part.sku_id = member.id AND part.buyer = p_buyer
          JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
         WHERE (member.id = p_sku OR member.limit_group = v_sku.limit_group)
           AND (hold.state IN ('paying', 'sold') OR hold.state = 'held' AND hold.expires_at > p_now);
        IF v_taken + p_quantity > v_sku.buyer_max THEN
            outcome := 'buyer-limit';
            answer := json_build_object('sku', v_sku.name, 'limit', v_sku.buyer_max, 'taken', v_taken)::text;
            RETURN;
        END IF;
    END IF;

    IF p_seats IS NULL THEN
        SELECT coalesce(sum(total + allowance - held - sold), 0) INTO v_free FROM stock.sub_counters WHERE sku_id = p_sku;
        IF v_free >= p_quantity THEN RETURN; END IF;
        v_due := stock_verbs.due_units(p_sku, p_now);
        IF v_free + v_due >= p_quantity THEN
            outcome := 'reclaim';
            RETURN;
        END IF;
        outcome := CASE WHEN v_free + v_due = 0 THEN 'sold-out' ELSE 'insufficient-stock' END;
        answer := json_build_object(
            'sku', v_sku.name, 'available', v_free + v_due,
            'held', (SELECT coalesce(sum(held), 0) - v_due FROM stock.sub_counters WHERE sku_id = p_sku),
            'next_release_at', stock_verbs.next_release(p_sku, p_now))::text;
        RETURN;
    END IF;

    v_seats := ARRAY (SELECT asked FROM unnest(p_seats) AS asked
                       WHERE NOT EXISTS (SELECT 1 FROM stock.seats AS seat WHERE seat.sku_id = p_sku AND seat.seat = asked));
    IF v_seats <> '{}' THEN
        outcome := 'no-such-seat';
        answer := json_build_object('sku', v_sku.name, 'seats', v_seats)::text;
        RETURN;
    END IF;
    v_seats := ARRAY (
        SELECT seat.seat FROM stock.seats AS seat
          LEFT JOIN stock.hold_parts AS part ON seat.state = 'held' AND part.sku_id = p_sku AND part.hold_id = seat.hold_id AND part.shard = -1
          LEFT JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
         WHERE seat.sku_id = p_sku AND seat.seat = ANY (p_seats) AND seat.state <> 'available'
           AND NOT (hold.state IS NOT DISTINCT FROM 'held' AND hold.expires_at <= p_now)
         ORDER BY seat.seat);
    IF v_seats <> '{}' THEN
        outcome := 'seat-taken';
        answer := json_build_object('sku', v_sku.name, 'seats', v_seats)::text;
    ELSIF EXISTS (SELECT 1 FROM stock.seats WHERE sku_id = p_sku AND seat = ANY (p_seats) AND state <> 'available') THEN
        outcome := 'reclaim';
    END IF;
END $$;

-- Units of a SKU in holds that are due but not swept.
CREATE OR REPLACE FUNCTION stock_verbs.due_units(p_sku integer, p_now timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(part.quantity), 0)::bigint
      FROM stock.holds AS hold
      JOIN stock.hold_parts AS part ON part.sku_id = p_sku AND part.hold_id = hold.id
     WHERE hold.state = 'held' AND hold.expires_at <= p_now
$$;

-- When the next held units of a SKU may come back, or null.
CREATE OR REPLACE FUNCTION stock_verbs.next_release(p_sku integer, p_now timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT stock_verbs.moment(hold.expires_at)
      FROM stock.holds AS hold
     WHERE hold.state = 'held' AND hold.expires_at > p_now
       AND EXISTS (SELECT 1 FROM stock.hold_parts AS part WHERE part.sku_id = p_sku AND part.hold_id = hold.id)
     ORDER BY hold.expires_at LIMIT 1
$$;
