-- The seats of a SKU with their states, section by section. Due, unswept holds read as available. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.seat_map(p_sku integer) RETURNS TABLE (
    seat text, section text, "row" text, number integer, tier text, x real, y real, state text
) LANGUAGE sql STABLE AS $$
    SELECT place.seat, place.section, place.row_name, place.number, place.tier, place.x, place.y,
           CASE WHEN due.hold_id IS NOT NULL THEN 'available' ELSE place.state END
      FROM stock.seats AS place
      LEFT JOIN (
           SELECT id AS hold_id FROM stock.holds
            WHERE sku_id = p_sku AND holds.state = 'held' AND expires_at <= statement_timestamp()
            UNION ALL SELECT id FROM stock_verbs.due_carts(p_sku, statement_timestamp(), NULL)
           ) AS due ON place.state = 'held' AND due.hold_id = place.hold_id
     WHERE place.sku_id = p_sku
     ORDER BY place.section, place.row_name, place.number, place.seat
$$;
