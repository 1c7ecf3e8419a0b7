-- Change a fungible SKU's total as its source says: more came, some went, or somebody counted.
--
-- p_kind: 'increase' and 'reduce' by p_quantity, or 'recount': there are p_quantity units in all, held and sold ones among
-- them. p_total_max: the largest total. p_accept: where more are held and sold than would be left, take what is free and open
-- an incident about the rest. p_source, p_reason, p_occurred_at: whose figure it is, why, and since when. The key's p_slot and
-- p_fingerprint as in reserve; p_operation becomes the adjustment's id, p_incident the incident's. Answers one row:
--   done, replayed     the adjustment: {id, sku, kind, quantity, delta, short, incident, total, held, sold, available, source,
--                      reason, occurred_at, actor, at}: the total changed by `delta`, and `short` units were not to be had
--   key-reused         the key had an effect under another body
--   seated             a seated SKU's stock is its seats; nothing was changed
--   too-many           the total would pass p_total_max
--   reclaim, below-commitments   as restock answers; the latter with `choices`: accept the shortage, wait, or cancel sales
-- Safe under races: the SKU's row is locked first, so adjusters come one after the other and a repeat finds the first one's
-- record; then restock locks the sub-counters, so buyers never meet a half-made change.
CREATE OR REPLACE FUNCTION stock_verbs.adjust(
    p_sku integer, p_kind text, p_quantity bigint, p_total_max bigint, p_accept boolean, p_source text, p_reason text,
    p_occurred_at timestamptz, p_actor text, p_slot uuid, p_fingerprint bytea, p_operation uuid, p_incident uuid
) RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku   stock.skus;
    v_total bigint;
    v_done  record;
    v_new   bigint;
    v_at    timestamptz;
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku FOR NO KEY UPDATE;
    RETURN QUERY SELECT * FROM stock_verbs.recorded(p_sku, p_slot, p_fingerprint, p_operation);
    IF FOUND THEN RETURN; END IF;
    v_total := CASE p_kind WHEN 'increase' THEN v_sku.total + p_quantity
                           WHEN 'reduce' THEN v_sku.total - p_quantity ELSE p_quantity END;
    IF v_sku.kind = 'seated' OR v_total > p_total_max THEN
        RETURN QUERY SELECT CASE v_sku.kind WHEN 'seated' THEN 'seated' ELSE 'too-many' END,
                            json_build_object('sku', v_sku.name, 'total', v_sku.total)::text;
        RETURN;
    END IF;
    SELECT * INTO v_done FROM stock_verbs.restock(
        v_sku, v_total, v_sku.oversell_allowance, p_accept, p_kind, p_actor, p_operation, p_source, p_reason, p_occurred_at);
    outcome := v_done.outcome;
    answer := v_done.answer;
    IF outcome = 'done' THEN
        -- What an open incident tells of already is no news when somebody counts again.
        v_new := greatest(0, v_done.short - CASE p_kind WHEN 'recount' THEN (
            SELECT coalesce(sum(quantity), 0) FROM stock.incidents
             WHERE sku_id = p_sku AND kind = 'shortage' AND state = 'open') ELSE 0 END);
        v_at := stock_verbs.note_adjustment(v_sku, p_kind, v_new, p_source, p_reason, p_occurred_at, p_actor,
                                            p_operation, p_incident);
        SELECT json_build_object(
                   'id', p_operation, 'sku', level.name, 'kind', p_kind, 'quantity', p_quantity,
                   'delta', level.total - v_sku.total, 'short', v_done.short,
                   'incident', CASE WHEN v_new > 0 THEN p_incident END, 'total', level.total, 'held', level.held,
                   'sold', level.sold, 'available', level.available, 'source', p_source, 'reason', p_reason,
                   'occurred_at', stock_verbs.moment(p_occurred_at), 'actor', p_actor, 'at', stock_verbs.moment(v_at))::text
          INTO answer FROM stock_verbs.stock_level(ARRAY[v_sku.name]) AS level;
        INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id)
        VALUES (p_sku, p_slot, p_fingerprint, answer, p_operation);
    ELSIF outcome = 'below-commitments' THEN
        answer := (answer::jsonb || jsonb_build_object('choices', ARRAY['accept-shortage', 'wait', 'cancel']))::text;
    END IF;
    RETURN NEXT;
END $$;

-- What an adjustment leaves beside the moves: a ledger row where nothing moved (a count that found what was recorded, a
-- reduction that is all shortage), and the incident about units that are promised and do not exist. Answers the time.
CREATE OR REPLACE FUNCTION stock_verbs.note_adjustment(
    p_sku stock.skus, p_kind text, p_short bigint, p_source text, p_reason text, p_occurred_at timestamptz, p_actor text,
    p_operation uuid, p_incident uuid
) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, actor, source, reason, occurred_at, at)
    SELECT p_sku.id, p_operation, p_kind, 0, p_actor, p_source, p_reason, p_occurred_at, v_now
      FROM stock.skus WHERE id = p_sku.id AND total = p_sku.total;
    IF p_short > 0 THEN
        INSERT INTO stock.incidents (sku_id, id, kind, quantity, operation_id, source, reason, opened_by, opened_at)
        VALUES (p_sku.id, p_incident, 'shortage', p_short, p_operation, p_source, p_reason, p_actor, v_now);
    END IF;
    RETURN v_now;
END $$;
