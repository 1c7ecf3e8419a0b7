-- The adjustments of a SKU, newest first, as the ledger has them.
--
-- p_before: only those older than this one, or null; p_limit: at most so many. Answers one row each: id (its operation), kind,
-- when, by how many units it changed the total, how many more were missing, its incident, source, reason, occurred_at, actor.
-- An opposite one of the same source takes it back. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.adjustments(p_sku integer, p_before uuid, p_limit integer) RETURNS TABLE (
    id uuid, kind text, at timestamptz, delta bigint, short bigint, incident uuid, source text, reason text,
    occurred_at timestamptz, actor text
) LANGUAGE sql STABLE AS $$
    SELECT made.operation_id, made.verb, made.at, made.delta, coalesce(incident.quantity, 0), incident.id, made.source,
           made.reason, made.occurred_at, made.actor
      FROM (SELECT entry.operation_id, entry.verb, min(entry.at) AS at, sum(entry.total_delta)::bigint AS delta,
                   entry.source, entry.reason, entry.occurred_at, entry.actor
              FROM stock.ledger AS entry
             WHERE entry.sku_id = p_sku AND entry.source IS NOT NULL AND (p_before IS NULL OR entry.operation_id < p_before)
             GROUP BY entry.operation_id, entry.verb, entry.source, entry.reason, entry.occurred_at, entry.actor
             ORDER BY entry.operation_id DESC LIMIT p_limit) AS made
      LEFT JOIN stock.incidents AS incident ON incident.sku_id = p_sku AND incident.operation_id = made.operation_id
     ORDER BY made.operation_id DESC
$$;

-- By how many units each source has changed the SKU's total in all, and in how many adjustments. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.adjusted_by_source(p_sku integer)
RETURNS TABLE (source text, delta bigint, adjustments bigint) LANGUAGE sql STABLE AS $$
    SELECT entry.source, sum(entry.total_delta)::bigint, count(DISTINCT entry.operation_id)
      FROM stock.ledger AS entry WHERE entry.sku_id = p_sku AND entry.source IS NOT NULL
     GROUP BY entry.source ORDER BY entry.source
$$;
