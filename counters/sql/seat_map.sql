-- The seats of a SKU with their states, section by section. Due, unswept holds read as available. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.seat_map(p_sku integer) RETURNS TABLE (
    seat text, section text, "row" text, number integer, tier text, x real, y real, state text
) LANGUAGE sql STABLE AS $$
    SELECT place.seat, place.section, place.row_name, place.number, place.tier, place.x, place.y,
           CASE WHEN due.hold_id IS NOT NULL THEN 'available' ELSE place.state END
      FROM stock.seats AS place
      LEFT JOIN (
           SELECT part.hold_id FROM stock.holds AS hold JOIN stock.hold_parts AS part ON part.hold_id = hold.id
            WHERE hold.state = 'held' AND hold.expires_at <= statement_timestamp() AND part.sku_id = p_sku AND part.shard = -1
           ) AS due ON place.state = 'held' AND due.hold_id = place.hold_id
     WHERE place.sku_id = p_sku
     ORDER BY place.section, place.row_name, place.number, place.seat
$$;
