-- What is known of a hold, for telling its story: its row, its sales, every move of its units, and the clock.
--
-- p_sku: the hold's lead SKU, which its id names. Answers one row, or none for a hold that does not exist:
--   hold      its row as JSON; `first_until` beside it is its first deadline, while the answer to its key is kept
--   moves     [{operation, at, verb, actor, reason, sku, quantity}], one for each operation, verb and SKU, in ledger order:
--             units that were taken, sold or given back
--   sale      the id of its sale, or null
--   now       the database's clock
-- Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.hold_story(p_sku integer, p_hold uuid)
RETURNS TABLE (hold jsonb, sku text, moves jsonb, sale uuid, now timestamptz) LANGUAGE sql STABLE AS $$
    SELECT to_jsonb(held) || jsonb_build_object('first_until', (
               SELECT record.answer::jsonb ->> 'expires_at' FROM stock.idempotency AS record
                WHERE record.sku_id = p_sku AND record.operation_id = (
                      SELECT entry.operation_id FROM stock.ledger AS entry
                       WHERE entry.hold_id = p_hold AND entry.verb = 'reserve' LIMIT 1))),
           lead.name,
           (SELECT coalesce(jsonb_agg(to_jsonb(move) - 'first_id' ORDER BY move.first_id), '[]')
              FROM (SELECT min(entry.id) AS first_id, entry.operation_id AS operation, min(entry.at) AS at, entry.verb,
                           entry.actor, entry.reason, sku.name AS sku,
                           sum(CASE entry.verb WHEN 'confirm' THEN entry.sold_delta
                                               ELSE abs(entry.held_delta + entry.sold_delta) END) AS quantity
                      FROM stock.ledger AS entry JOIN stock.skus AS sku ON sku.id = entry.sku_id
                     WHERE entry.hold_id = p_hold
                     GROUP BY entry.operation_id, entry.verb, entry.actor, entry.reason, sku.name) AS move),
           (SELECT sale.id FROM stock.sales AS sale WHERE sale.sku_id = p_sku AND sale.hold_id = p_hold),
           statement_timestamp()
      FROM stock.holds AS held JOIN stock.skus AS lead ON lead.id = held.sku_id
     WHERE held.sku_id = p_sku AND held.id = p_hold
$$;
