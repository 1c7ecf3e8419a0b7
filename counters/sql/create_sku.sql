-- Put a SKU: create it with its stock, or change the rules of the one that has that name.
--
-- p_rules: the settings as JSON, all of them (name, title, kind, state, total, shards, oversell, …). p_seats: for a seated SKU
-- [{"seat", "section", "row", "number", "tier", "x", "y", "blocked"}], else null. Answers one row:
--   created, changed, unchanged   answer = {sku, outcome}
--   seats-missing      a new seated SKU comes without seats; nothing was changed
--   fixed              kind, shards or seats differ from what exists: answer = {sku, field}; nothing was changed
--   reclaim            so far, but not without due, unswept holds: answer = {sku_id}; run expire_due for it, then ask again
--   below-commitments  total or allowance would be below what is given: answer as restock's; nothing was changed
-- Safe under races: creation is decided by UNIQUE sku_names_are_unique; a change locks the SKU's row, then (for a new
-- total or allowance) its sub-counters ascending, so a seller and the buyers never overwrite each other.
CREATE OR REPLACE FUNCTION stock_verbs.create_sku(p_rules jsonb, p_seats jsonb, p_actor text, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_new stock.skus := jsonb_populate_record(NULL::stock.skus, p_rules || jsonb_build_object(
        'oversell_policy', p_rules -> 'oversell' -> 'policy', 'oversell_allowance', p_rules -> 'oversell' -> 'allowance'));
    v_old stock.skus;
BEGIN
    IF v_new.kind = 'seated' AND p_seats IS NULL AND NOT EXISTS (SELECT 1 FROM stock.skus WHERE name = v_new.name) THEN
        RETURN QUERY SELECT 'seats-missing', json_build_object('sku', v_new.name)::text;
        RETURN;
    END IF;
    INSERT INTO stock.skus (name, title, kind, state, total, shards, hold_seconds, hold_seconds_max, extensions_max,
                            payment_seconds_max, buyer_max, limit_group, room, on_sale_at, off_sale_at, oversell_policy,
                            oversell_allowance, strategy)
    VALUES (v_new.name, v_new.title, v_new.kind, v_new.state, v_new.total, v_new.shards, v_new.hold_seconds,
            v_new.hold_seconds_max, v_new.extensions_max, v_new.payment_seconds_max, v_new.buyer_max, v_new.limit_group,
            v_new.room, v_new.on_sale_at, v_new.off_sale_at, v_new.oversell_policy, v_new.oversell_allowance, v_new.strategy)
    ON CONFLICT DO NOTHING RETURNING * INTO v_old;
    IF FOUND THEN
        PERFORM stock_verbs.stock_up(v_old, p_seats, p_actor, p_operation);
        RETURN QUERY SELECT 'created', json_build_object('sku', v_new.name, 'outcome', 'created')::text;
        RETURN;
    END IF;
    SELECT * INTO STRICT v_old FROM stock.skus WHERE name = v_new.name FOR NO KEY UPDATE;
    IF (v_old.kind, v_old.shards) <> (v_new.kind, v_new.shards) THEN
        RETURN QUERY SELECT 'fixed', json_build_object(
            'sku', v_old.name, 'field', CASE WHEN v_old.kind <> v_new.kind THEN 'kind' ELSE 'shards' END)::text;
        RETURN;
    END IF;
    IF v_old.kind = 'seated' AND (v_old.total <> v_new.total OR stock_verbs.seats_differ(v_old.id, p_seats)) THEN
        RETURN QUERY SELECT 'fixed', json_build_object('sku', v_old.name, 'field', 'seats')::text;
        RETURN;
    END IF;
    IF to_jsonb(v_old) - '{id,created_at}'::text[] = to_jsonb(v_new) - '{id,created_at}'::text[] THEN
        RETURN QUERY SELECT 'unchanged', json_build_object('sku', v_old.name, 'outcome', 'unchanged')::text;
        RETURN;
    END IF;
    outcome := 'done';
    IF (v_old.total, v_old.oversell_allowance) <> (v_new.total, v_new.oversell_allowance) THEN
        SELECT stocked.outcome, stocked.answer INTO outcome, answer
          FROM stock_verbs.restock(v_old, v_new.total, v_new.oversell_allowance, false, 'restate', p_actor, p_operation) AS stocked;
    END IF;
    IF outcome = 'done' THEN
        PERFORM stock_verbs.change_rules(v_old.id, v_new);
        outcome := 'changed';
        answer := json_build_object('sku', v_old.name, 'outcome', 'changed')::text;
    END IF;
    RETURN NEXT;
END $$;

-- Write the rules of p_new into the SKU's row; its total is restock's to write.
CREATE OR REPLACE FUNCTION stock_verbs.change_rules(p_sku integer, p_new stock.skus) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE stock.skus
       SET title = p_new.title, state = p_new.state, hold_seconds = p_new.hold_seconds, hold_seconds_max = p_new.hold_seconds_max,
           extensions_max = p_new.extensions_max, payment_seconds_max = p_new.payment_seconds_max, buyer_max = p_new.buyer_max,
           limit_group = p_new.limit_group, room = p_new.room, on_sale_at = p_new.on_sale_at, off_sale_at = p_new.off_sale_at,
           oversell_policy = p_new.oversell_policy, oversell_allowance = p_new.oversell_allowance, strategy = p_new.strategy
     WHERE id = p_sku
$$;

-- Whether the seats asked for (null: no matter) are other than those that the SKU has.
CREATE OR REPLACE FUNCTION stock_verbs.seats_differ(p_sku integer, p_seats jsonb) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_seats IS NOT NULL AND EXISTS (
        SELECT 1
          FROM jsonb_to_recordset(p_seats) AS asked (
               seat text, section text, "row" text, number integer, tier text, x real, y real, blocked boolean)
          FULL JOIN (SELECT * FROM stock.seats WHERE sku_id = p_sku) AS known USING (seat)
         WHERE (asked.section, asked."row", asked.number, asked.tier, asked.x, asked.y, coalesce(asked.blocked, false))
               IS DISTINCT FROM
               (known.section, known.row_name, known.number, known.tier, known.x, known.y, known.state = 'blocked'))
$$;

-- Lay out a new SKU's sub-counters (as evenly as whole units allow) or seats, each in the ledger.
CREATE OR REPLACE FUNCTION stock_verbs.stock_up(p_sku stock.skus, p_seats jsonb, p_actor text, p_operation uuid) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO stock.sequencers (sku_id) VALUES (p_sku.id);
    IF p_sku.kind = 'fungible' THEN
        INSERT INTO stock.sub_counters (sku_id, shard, total)
        SELECT p_sku.id, shard, 0 FROM generate_series(0, p_sku.shards - 1) AS shard;
        PERFORM stock_verbs.spread(p_sku.id, p_sku.total, p_sku.oversell_allowance, 'create', p_actor, p_operation);
        RETURN;
    END IF;
    WITH laid AS (
        INSERT INTO stock.seats (sku_id, seat, section, row_name, number, tier, x, y, state)
        SELECT p_sku.id, asked.seat, asked.section, asked."row", asked.number, asked.tier, asked.x, asked.y,
               CASE WHEN asked.blocked THEN 'blocked' ELSE 'available' END
          FROM jsonb_to_recordset(p_seats) AS asked (
               seat text, section text, "row" text, number integer, tier text, x real, y real, blocked boolean)
        RETURNING seat, state)
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, total_delta, actor)
    SELECT p_sku.id, p_operation, 'create', -1, array_agg(seat ORDER BY seat), state, count(*), p_actor FROM laid GROUP BY state;
END $$;
