-- What each sale sold of each SKU. $1 the SKUs' names.
SELECT sale.id::text AS sale, sale.hold_id::text AS hold, sku.name AS sku, sum(part.quantity)::bigint AS units,
       coalesce((SELECT array_agg(seat) FROM stock.hold_parts AS seated CROSS JOIN unnest(seated.seats) AS seat
                  WHERE seated.sku_id = sku.id AND seated.hold_id = sale.hold_id), '{}') AS seats,
       sale.cancelled_at IS NOT NULL AS cancelled
  FROM stock.sales AS sale
  JOIN stock.hold_parts AS part ON part.hold_id = sale.hold_id AND part.lead_sku_id = sale.sku_id
  JOIN stock.skus AS sku ON sku.id = part.sku_id
 WHERE sku.name = ANY ($1)
 GROUP BY sale.sku_id, sale.id, sku.id;
