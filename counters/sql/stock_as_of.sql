-- What a SKU's counters said at a moment, by replaying the ledger up to it (by the rows' own clock).
--
-- p_at: the moment. Answers one row: created_at of the SKU and the database's now, by which the caller judges the moment, and
-- the figures: total, allowance, held, sold, available. Holds count as held until their end was recorded: one that was past
-- its deadline but not swept at the moment still does. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.stock_as_of(p_sku integer, p_at timestamptz) RETURNS TABLE (
    created_at timestamptz, now timestamptz, total bigint, allowance bigint, held bigint, sold bigint, available bigint
) LANGUAGE sql STABLE AS $$
    SELECT sku.created_at, statement_timestamp(), units.total, units.allowance, units.held, units.sold,
           CASE sku.kind WHEN 'fungible' THEN units.total + units.allowance - units.held - units.sold ELSE seats.available END
      FROM stock.skus AS sku
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(total_delta), 0)::bigint AS total, coalesce(sum(allowance_delta), 0)::bigint AS allowance,
                  coalesce(sum(held_delta), 0)::bigint AS held, coalesce(sum(sold_delta), 0)::bigint AS sold
             FROM stock.ledger AS entry WHERE entry.sku_id = sku.id AND entry.at <= p_at) AS units
     CROSS JOIN LATERAL (  -- blocked seats are neither taken nor to be had: only each seat's last state tells
           SELECT count(*) FILTER (WHERE last.seat_state = 'available') AS available
             FROM (SELECT DISTINCT ON (named.seat) entry.seat_state
                     FROM stock.ledger AS entry CROSS JOIN LATERAL unnest(entry.seats) AS named (seat)
                    WHERE entry.sku_id = sku.id AND entry.shard = -1 AND entry.at <= p_at
                    ORDER BY named.seat, entry.id DESC) AS last) AS seats
     WHERE sku.id = p_sku
$$;
