-- Holds that wait for their payment: those that nobody has asked about in vain first, then the longest overdue, so that
-- any number of stuck ones never keeps a fresh one waiting.
-- p_overdue: only those past their deadline. p_limit: at most so many. p_stuck, p_until, p_after: the stuck_since, paying_until
-- and id of the last one that was read, to go on behind it; all null to begin. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.paying_holds(
    p_overdue boolean, p_limit integer, p_stuck timestamptz, p_until timestamptz, p_after uuid
) RETURNS TABLE (
    sku text, sku_id integer, id uuid, paying_until timestamptz, stuck_since timestamptz, quantity bigint, actor text
) LANGUAGE sql STABLE AS $$
    SELECT sku.name, hold.sku_id, hold.id, hold.paying_until, hold.stuck_since,
           (SELECT sum(part.quantity) FROM stock.hold_parts AS part WHERE part.hold_id = hold.id)::bigint, hold.actor
      FROM stock.holds AS hold JOIN stock.skus AS sku ON sku.id = hold.sku_id
     WHERE hold.state = 'paying' AND (NOT p_overdue OR hold.paying_until <= statement_timestamp())
       AND (p_after IS NULL OR (coalesce(hold.stuck_since, '-infinity'), hold.paying_until, hold.id)
                               > (coalesce(p_stuck, '-infinity'), p_until, p_after))
     ORDER BY coalesce(hold.stuck_since, '-infinity'), hold.paying_until, hold.id LIMIT p_limit
$$;
