-- Holds that wait for their payment: those that nobody has asked about in vain first, then the longest overdue, so that
-- any number of stuck ones never keeps a fresh one waiting.
-- p_overdue: only those past their deadline. p_limit: at most so many. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.paying_holds(p_overdue boolean, p_limit integer) RETURNS TABLE (
    sku text, sku_id integer, id uuid, paying_until timestamptz, stuck_since timestamptz, quantity bigint, actor text
) LANGUAGE sql STABLE AS $$
    SELECT sku.name, hold.sku_id, hold.id, hold.paying_until, hold.stuck_since,
           (SELECT sum(part.quantity) FROM stock.hold_parts AS part WHERE part.hold_id = hold.id)::bigint, hold.actor
      FROM stock.holds AS hold JOIN stock.skus AS sku ON sku.id = hold.sku_id
     WHERE hold.state = 'paying' AND (NOT p_overdue OR hold.paying_until <= statement_timestamp())
     ORDER BY hold.stuck_since NULLS FIRST, hold.paying_until, hold.id LIMIT p_limit
$$;
