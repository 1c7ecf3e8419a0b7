-- Incidents: where units are promised that do not exist, so that a person has to act. Newest first.
--
-- p_sku: of one SKU, or null for all; p_state: 'open', 'closed', or null for both; p_limit: at most so many. Answers one row
-- each, `adjustment` being the one that opened it. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.incidents(p_sku integer, p_state text, p_limit integer) RETURNS TABLE (
    id uuid, sku text, kind text, state text, quantity bigint, adjustment uuid, source text, reason text, opened_by text,
    opened_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT incident.id, sku.name, incident.kind, incident.state, incident.quantity, incident.operation_id, incident.source,
           incident.reason, incident.opened_by, incident.opened_at
      FROM stock.incidents AS incident JOIN stock.skus AS sku ON sku.id = incident.sku_id
     WHERE (p_sku IS NULL OR incident.sku_id = p_sku) AND (p_state IS NULL OR incident.state = p_state)
     ORDER BY incident.opened_at DESC, incident.id DESC LIMIT p_limit
$$;
