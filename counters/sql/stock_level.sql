-- What is left of SKUs, in one snapshot: for the shop, the console and the line's stock signal.
--
-- p_names: which, or null for all. Answers one row each: number, total, held (live holds only), sold, available (free units,
-- the unused allowance, and the units of due, unswept holds), backordered (given beyond the total) and the next deadline of a
-- live hold. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.stock_level(p_names text[]) RETURNS TABLE (
    id integer, name text, title text, kind text, state text, room text,
    total bigint, held bigint, sold bigint, available bigint, backordered bigint, next_release_at text
) LANGUAGE sql STABLE AS $$
    SELECT sku.id, sku.name, sku.title, sku.kind, sku.state, sku.room, sku.total,
           (level.held - due.units)::bigint, level.sold::bigint, (level.free + due.units)::bigint,
           greatest(level.held - due.units + level.sold - sku.total, 0)::bigint,
           stock_verbs.next_release(sku.id, statement_timestamp())
      FROM stock.skus AS sku
     CROSS JOIN LATERAL (SELECT stock_verbs.due_units(sku.id, statement_timestamp()) AS units) AS due
     CROSS JOIN LATERAL (  -- a fungible SKU has no seats, a seated one no sub-counters: their sum is whichever there is
           SELECT counter.held + seat.held AS held, counter.sold + seat.sold AS sold, counter.free + seat.free AS free
             FROM (SELECT coalesce(sum(held), 0) AS held, coalesce(sum(sold), 0) AS sold,
                          coalesce(sum(sub_counters.total + allowance - held - sold), 0) AS free
                     FROM stock.sub_counters WHERE sku_id = sku.id) AS counter
            CROSS JOIN (SELECT count(*) FILTER (WHERE seats.state = 'held') AS held,
                               count(*) FILTER (WHERE seats.state = 'sold') AS sold,
                               count(*) FILTER (WHERE seats.state = 'available') AS free
                          FROM stock.seats WHERE sku_id = sku.id AND sku.kind = 'seated') AS seat
           ) AS level
     WHERE p_names IS NULL OR sku.name = ANY (p_names)
     ORDER BY sku.name
$$;
