-- Reserve whole carts, exactly: the slower path near sell-out, for several SKUs, for seats and for limited buyers.
--
-- p_wants: one element a SKU, [{"sku_id", "quantity"} or {"sku_id", "seats": […]}], each SKU once; the first element's
-- SKU need not be the lowest. p_sku: the lead SKU, named by p_hold. The rest as in reserve.
-- Answers one row, all or nothing:
--   granted, replayed, key-reused, not-on-sale, other-room   as in reserve
--   reclaim             what is missing, or a limit, is in due, unswept holds: run expire_due for the SKUs in answer (null:
--                       those of the cart), then ask again
--   sold-out            nothing is available; answer = {sku, available, held, next_release_at}
--   insufficient-stock  fewer are available than asked; the same answer
--   seat-taken          answer = {sku, seats: those that are taken}
--   no-such-seat        the same answer, seats that do not exist
--   buyer-limit         answer = {sku, limit, taken, asked}
--   buyer-missing       a SKU is limited per buyer and nobody says who buys; answer = {sku}
-- Safe under races: it grants only under every lock, taken in the one order (buyers, sub-counters ascending, seats
-- ascending), with the clock read after them. It refuses under those locks too, or before them from the snapshot of one
-- statement, by the clock as read after that: what it refuses was not there at one moment, and what fell due meanwhile is
-- reclaimed. Either way it looks for the key again after that moment, so that a duplicate of what emptied the stock hears the
-- first answer and no refusal. Due holds count as free.
-- The key's row is written before the units are moved: a duplicate that comes second reads the first one's answer.
CREATE OR REPLACE FUNCTION stock_verbs.reserve_cart(
    p_sku integer, p_hold uuid, p_wants jsonb, p_lines json, p_room text, p_actor text,
    p_owner text, p_buyer text, p_slot uuid, p_fingerprint bytea, p_operation uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_skus    integer[] := ARRAY (SELECT (want ->> 'sku_id')::integer FROM jsonb_array_elements(p_wants) AS want ORDER BY 1);
    v_hold    stock.holds;
    v_want    record;
    v_refusal record;
    v_now     timestamptz;
BEGIN
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    SELECT * INTO v_refusal FROM stock_verbs.cart_refusal(p_wants, p_room, p_buyer, clock_timestamp());
    IF v_refusal.outcome IS NULL THEN
        PERFORM stock_verbs.lock_cart(v_skus, p_wants, p_buyer);
        v_now := clock_timestamp();
        SELECT * INTO v_refusal FROM stock_verbs.cart_refusal(p_wants, p_room, p_buyer, v_now);
    END IF;
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    IF v_refusal.outcome IS NOT NULL THEN
        RETURN QUERY SELECT v_refusal.outcome, v_refusal.answer;
        RETURN;
    END IF;

    v_hold.sku_id := p_sku;
    v_hold.id := p_hold;
    v_hold.state := 'held';
    v_hold.lines := p_lines;
    v_hold.backordered := (
        SELECT coalesce(sum(stock_verbs.beyond_total(want.sku_id, want.quantity)), 0)
          FROM stock_verbs.wants(p_wants) AS want WHERE want.seats IS NULL);
    v_hold.expires_at := v_now + make_interval(secs => (SELECT min(hold_seconds) FROM stock.skus WHERE id = ANY (v_skus)));
    v_hold.fence := 1 + greatest(
        (SELECT max(fence) FROM stock.sub_counters WHERE sku_id = ANY (v_skus)),
        (SELECT max((SELECT max(fence) FROM stock.seats WHERE sku_id = want.sku_id AND seat = ANY (want.seats)))
           FROM stock_verbs.wants(p_wants) AS want), 0);
    INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)
    VALUES (p_sku, p_slot, p_fingerprint, stock_verbs.hold_document(v_hold, v_now), p_operation, p_hold)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM stock_verbs.recorded_first(p_sku, p_slot, p_fingerprint, p_operation);
        RETURN;
    END IF;
    INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, owner, buyer, lines, quantity, backordered, created_at)
    VALUES (p_sku, p_hold, v_hold.fence, v_hold.expires_at, p_actor, p_owner, p_buyer, p_lines,
            (SELECT sum(want.quantity) FROM stock_verbs.wants(p_wants) AS want), v_hold.backordered, v_now);
    FOR v_want IN SELECT * FROM stock_verbs.wants(p_wants) LOOP
        PERFORM stock_verbs.take(v_want.sku_id, v_want.quantity, v_want.seats, v_hold, p_sku, p_buyer, p_actor, p_operation);
    END LOOP;
    RETURN QUERY SELECT 'granted', stock_verbs.hold_document(v_hold, v_now);
END $$;

-- Lock what a cart needs, in the one order: the buyer's rows, all sub-counters of its SKUs, its seats.
CREATE OR REPLACE FUNCTION stock_verbs.lock_cart(p_skus integer[], p_wants jsonb, p_buyer text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_want record;
BEGIN
    PERFORM stock_verbs.lock_buyer(p_skus, p_buyer);
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = ANY (p_skus) ORDER BY sku_id, shard FOR NO KEY UPDATE;
    FOR v_want IN SELECT * FROM stock_verbs.wants(p_wants) LOOP  -- by SKU: in one statement all seats would be read
        PERFORM 1 FROM stock.seats
          WHERE sku_id = v_want.sku_id AND seat = ANY (v_want.seats) ORDER BY seat FOR NO KEY UPDATE;
    END LOOP;
END $$;

-- The wants of a cart as rows, by SKU.
CREATE OR REPLACE FUNCTION stock_verbs.wants(p_wants jsonb)
RETURNS TABLE (sku_id integer, quantity bigint, seats text[]) LANGUAGE sql IMMUTABLE AS $$
    SELECT (want ->> 'sku_id')::integer,
           coalesce((want ->> 'quantity')::bigint, jsonb_array_length(want -> 'seats')),
           CASE WHEN want ? 'seats'
                THEN ARRAY (SELECT name FROM jsonb_array_elements_text(want -> 'seats') AS name ORDER BY name COLLATE "C") END
      FROM jsonb_array_elements(p_wants) AS want
     ORDER BY 1
$$;

-- Lock the rows of a buyer in every limit group that the SKUs belong to, in ascending order.
CREATE OR REPLACE FUNCTION stock_verbs.lock_buyer(p_skus integer[], p_buyer text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_leads integer[] := ARRAY (
        SELECT DISTINCT (SELECT min(member.id) FROM stock.skus AS member
                          WHERE member.id = sku.id OR member.limit_group = sku.limit_group) AS lead
          FROM stock.skus AS sku WHERE sku.id = ANY (p_skus) AND sku.buyer_max IS NOT NULL ORDER BY lead);
BEGIN
    IF p_buyer IS NULL OR v_leads = '{}' THEN RETURN; END IF;
    INSERT INTO stock.buyers (sku_id, buyer)
    SELECT lead, p_buyer FROM unnest(v_leads) AS lead ORDER BY lead ON CONFLICT DO NOTHING;
    PERFORM 1 FROM stock.buyers WHERE sku_id = ANY (v_leads) AND buyer = p_buyer ORDER BY sku_id FOR NO KEY UPDATE;
END $$;
