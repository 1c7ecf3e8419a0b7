-- What is left for each room that SKUs name, in one snapshot: for the line's stock signal.
--
-- Answers room, free (what can be reserved: due, unswept holds count as free) and held (live holds). A SKU counts while it is on
-- sale; one that has ended, or left sale, gives nothing more but what is held. Rooms with neither are left out: of a draft
-- or a halted sale nothing can be said. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.room_stock() RETURNS TABLE (room text, free bigint, held bigint)
LANGUAGE sql STABLE AS $$
    SELECT sku.room,
           sum(CASE WHEN sku.state = 'on_sale' AND coalesce(sku.off_sale_at > statement_timestamp(), true)
                    THEN level.free + due.units ELSE 0 END)::bigint,
           sum(level.held - due.units)::bigint
      FROM stock.skus AS sku
     CROSS JOIN LATERAL (SELECT stock_verbs.due_units(sku.id, statement_timestamp()) AS units) AS due
     CROSS JOIN LATERAL (  -- a fungible SKU has no seats, a seated one no sub-counters: their sum is whichever there is
           SELECT counter.held + seat.held AS held, counter.free + seat.free AS free
             FROM (SELECT coalesce(sum(sub_counters.held), 0) AS held,
                          coalesce(sum(sub_counters.total + allowance - sub_counters.held - sold), 0) AS free
                     FROM stock.sub_counters WHERE sku_id = sku.id) AS counter
            CROSS JOIN (SELECT count(*) FILTER (WHERE seats.state = 'held') AS held,
                               count(*) FILTER (WHERE seats.state = 'available') AS free
                          FROM stock.seats WHERE sku_id = sku.id AND sku.kind = 'seated') AS seat
           ) AS level
     WHERE sku.room IS NOT NULL AND sku.state IN ('on_sale', 'ended')
     GROUP BY sku.room
$$;
