-- Why a cart cannot be granted at p_now. Shared by reserve_cart; reads only, from one snapshot when called in one statement.
--
-- p_wants, p_room: as in reserve_cart. Answers one row: (null, null) when it can be granted, else an outcome of reserve_cart with its
-- answer: whether it is on sale, the buyer's limits, the stock by SKU.
CREATE OR REPLACE FUNCTION stock_verbs.cart_refusal(
    p_wants jsonb, p_room text, p_buyer text, p_now timestamptz, OUT outcome text, OUT answer text
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT stock_verbs.sale_refusal(sku, p_room, p_now) INTO outcome
      FROM stock.skus AS sku JOIN stock_verbs.wants(p_wants) AS want ON want.sku_id = sku.id
     WHERE stock_verbs.sale_refusal(sku, p_room, p_now) IS NOT NULL ORDER BY sku.id LIMIT 1;
    IF outcome IS NULL THEN
        SELECT * INTO outcome, answer FROM stock_verbs.wants_refusal(p_wants, p_buyer, p_now);
    END IF;
END $$;

-- The same of limits and stock alone.
CREATE OR REPLACE FUNCTION stock_verbs.wants_refusal(
    p_wants jsonb, p_buyer text, p_now timestamptz, OUT outcome text, OUT answer text
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_want record;
BEGIN
    SELECT * INTO outcome, answer FROM stock_verbs.limit_refusal(p_wants, p_buyer, p_now);
    IF outcome IS NOT NULL THEN RETURN; END IF;
    FOR v_want IN SELECT * FROM stock_verbs.wants(p_wants) LOOP
        SELECT * INTO outcome, answer
          FROM stock_verbs.want_refusal(v_want.sku_id, v_want.quantity, v_want.seats, p_now);
        IF outcome IS NOT NULL THEN RETURN; END IF;
    END LOOP;
END $$;

-- Whether the cart would take its buyer past a limit: all lines of a limit group count together, beside what the buyer has
-- held, paying and sold in it. Due holds do not count, but where they stand in the way they must end first: one of them may be
-- confirmed at this moment, by a clock that was read in time. Then the answer is 'reclaim', with the group's SKUs.
CREATE OR REPLACE FUNCTION stock_verbs.limit_refusal(
    p_wants jsonb, p_buyer text, p_now timestamptz, OUT outcome text, OUT answer text
) LANGUAGE sql STABLE AS $$
    WITH asked AS (
        SELECT sku.id, sku.name, sku.buyer_max, sku.limit_group, want.quantity
          FROM stock_verbs.wants(p_wants) AS want JOIN stock.skus AS sku ON sku.id = want.sku_id
    ), limited AS (
        SELECT asked.name, asked.buyer_max, had.units, had.due,
               (SELECT sum(line.quantity) FROM asked AS line
                 WHERE line.id = asked.id OR line.limit_group = asked.limit_group)::bigint AS quantity,
               (SELECT json_agg(member.id) FROM stock.skus AS member
                 WHERE member.id = asked.id OR member.limit_group = asked.limit_group) AS members
          FROM asked CROSS JOIN LATERAL stock_verbs.buyer_units(asked.id, asked.limit_group, p_buyer, p_now) AS had
         WHERE asked.buyer_max IS NOT NULL
    )
    SELECT CASE WHEN p_buyer IS NULL THEN 'buyer-missing'
                WHEN units - due + quantity > buyer_max THEN 'buyer-limit' ELSE 'reclaim' END,
           CASE WHEN p_buyer IS NULL THEN json_build_object('sku', name)
                WHEN units - due + quantity > buyer_max
                THEN json_build_object('sku', name, 'limit', buyer_max, 'taken', units - due, 'asked', quantity)
                ELSE members END::text
      FROM limited
     WHERE p_buyer IS NULL OR units + quantity > buyer_max
     ORDER BY p_buyer IS NOT NULL AND units - due + quantity <= buyer_max, name LIMIT 1
$$;

-- What a buyer has in a SKU and its limit group: units held, paying and sold, and how many of these are of due holds.
CREATE OR REPLACE FUNCTION stock_verbs.buyer_units(
    p_sku integer, p_group text, p_buyer text, p_now timestamptz, OUT units bigint, OUT due bigint
) LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(part.quantity), 0)::bigint,
           coalesce(sum(part.quantity) FILTER (WHERE hold.state = 'held' AND hold.expires_at <= p_now), 0)::bigint
      FROM stock.skus AS member
      JOIN stock.hold_parts AS part ON part.sku_id = member.id AND part.buyer = p_buyer
      JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
     WHERE (member.id = p_sku OR member.limit_group = p_group) AND hold.state IN ('held', 'paying', 'sold')
$$;

-- Why one SKU's part of a cart cannot be granted at p_now: p_quantity units of a fungible SKU, or p_seats of a seated one.
CREATE OR REPLACE FUNCTION stock_verbs.want_refusal(
    p_sku integer, p_quantity bigint, p_seats text[], p_now timestamptz, OUT outcome text, OUT answer text
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_sku   stock.skus;
    v_free  bigint;
    v_due   bigint;
    v_seats text[];
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku;
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
          LEFT JOIN stock.hold_parts AS part
                 ON seat.state = 'held' AND part.sku_id = p_sku AND part.hold_id = seat.hold_id AND part.shard = -1
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

-- Units of a SKU in holds that are due but not swept: in those that it leads, found by deadline, and in carts that it is in.
-- Its parts are looked for hold by hold, whatever the planner thinks of tables that it has not yet counted: there are few due
-- holds, and many parts.
CREATE OR REPLACE FUNCTION stock_verbs.due_units(p_sku integer, p_now timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((
           SELECT sum((SELECT sum(part.quantity) FROM stock.hold_parts AS part
                        WHERE part.sku_id = p_sku AND part.hold_id = hold.id))
             FROM stock.holds AS hold
            WHERE hold.sku_id = p_sku AND hold.state = 'held' AND hold.expires_at <= p_now), 0)::bigint
         + coalesce((SELECT sum(units) FROM stock_verbs.due_carts(p_sku, p_now, NULL)), 0)::bigint
$$;

-- Due, unswept holds that other SKUs lead and that have units of p_sku, with how many; the first p_limit that fell due, or all.
-- However many holds of other SKUs are due, the carts of a SKU that is in few of them are found by index.
CREATE OR REPLACE FUNCTION stock_verbs.due_carts(p_sku integer, p_now timestamptz, p_limit integer)
RETURNS TABLE (id uuid, expires_at timestamptz, units bigint) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_first timestamptz := (
        SELECT hold.expires_at FROM stock.holds AS hold
         WHERE hold.state = 'held' AND hold.expires_at <= p_now ORDER BY hold.expires_at LIMIT 1);
    v_from  uuid := stock_verbs.id_at(v_first - interval '25 hours');
BEGIN
    IF v_first IS NULL THEN RETURN; END IF;
    IF stock_verbs.is_in_few_carts(p_sku, v_from) THEN
        RETURN QUERY
            SELECT hold.id, hold.expires_at, sum(part.quantity)::bigint
              FROM stock.hold_parts AS part
             CROSS JOIN LATERAL (  -- LIMIT: found by its key, and by nothing else
                   SELECT cart.id, cart.state, cart.expires_at FROM stock.holds AS cart
                    WHERE cart.sku_id = part.lead_sku_id AND cart.id = part.hold_id LIMIT 1) AS hold
             WHERE part.sku_id = p_sku AND part.lead_sku_id <> part.sku_id AND part.hold_id >= v_from
               AND hold.state = 'held' AND hold.expires_at <= p_now
             GROUP BY hold.id, hold.expires_at ORDER BY hold.expires_at, hold.id LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT due.id, due.expires_at, due.units FROM (
                SELECT hold.id, hold.expires_at, (
                       SELECT sum(part.quantity)::bigint FROM stock.hold_parts AS part
                        WHERE part.sku_id = p_sku AND part.hold_id = hold.id) AS units
                  FROM stock.holds AS hold
                 WHERE hold.state = 'held' AND hold.expires_at <= p_now AND hold.sku_id <> p_sku
                 ORDER BY hold.expires_at, hold.id) AS due
             WHERE due.units IS NOT NULL ORDER BY due.expires_at, due.id LIMIT p_limit;
    END IF;
END $$;

-- Whether so few carts since p_from, a hold's id, have a SKU that each may be looked at. Where not, the SKU is an add-on that
-- many buy, and it is quicker to look through all that is due (ids grow with time, and no hold is held for longer than a day).
CREATE OR REPLACE FUNCTION stock_verbs.is_in_few_carts(p_sku integer, p_from uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) < 500 FROM (
        SELECT FROM stock.hold_parts AS part
         WHERE part.sku_id = p_sku AND part.lead_sku_id <> part.sku_id AND part.hold_id >= p_from LIMIT 500) AS carts
$$;

-- When the next held units of a SKU may come back, or null: of the holds that it leads, found by index, or of carts that it
-- is in, the younger ones of which are looked at (ids grow with time, and no hold is held for longer than a day).
CREATE OR REPLACE FUNCTION stock_verbs.next_release(p_sku integer, p_now timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT stock_verbs.moment(least(
        (SELECT hold.expires_at FROM stock.holds AS hold
          WHERE hold.sku_id = p_sku AND hold.state = 'held' AND hold.expires_at > p_now
          ORDER BY hold.expires_at LIMIT 1),
        (SELECT min(hold.expires_at)
           FROM stock.hold_parts AS part
           JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
          WHERE part.sku_id = p_sku AND part.lead_sku_id <> part.sku_id
            AND part.hold_id > stock_verbs.id_at(p_now - interval '25 hours')
            AND hold.state = 'held' AND hold.expires_at > p_now)))
$$;

-- The smallest UUIDv7 of a moment.
CREATE OR REPLACE FUNCTION stock_verbs.id_at(p_at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM p_at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;
