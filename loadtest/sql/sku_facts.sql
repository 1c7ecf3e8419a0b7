-- Each SKU counted three times over: as stated, by its counters or seats, and by its holds and sales. $1 the SKUs' names.
WITH part AS (
    SELECT part.sku_id,
           sum(part.quantity) FILTER (WHERE hold.state IN ('held', 'paying')) AS held,
           sum(part.quantity) FILTER (WHERE hold.state = 'sold') AS sold,
           sum(part.quantity) FILTER (WHERE hold.state IN ('expired', 'released')) AS recycled
      FROM stock.hold_parts AS part
      JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
     GROUP BY part.sku_id
), counted AS (
    SELECT sku_id, sum(total) AS total, sum(allowance) AS allowance, sum(held) AS held, sum(sold) AS sold
      FROM stock.sub_counters GROUP BY sku_id
    UNION ALL
    SELECT sku_id, count(*), 0, count(*) FILTER (WHERE state = 'held'), count(*) FILTER (WHERE state = 'sold')
      FROM stock.seats GROUP BY sku_id
)
SELECT sku.name AS sku, sku.kind, sku.total::bigint, coalesce(counted.allowance, 0)::bigint AS allowance,
       coalesce(counted.total, 0)::bigint AS counted_total, coalesce(counted.held, 0)::bigint AS counted_held,
       coalesce(counted.sold, 0)::bigint AS counted_sold, coalesce(part.held, 0)::bigint AS units_held,
       coalesce(part.sold, 0)::bigint AS units_sold, coalesce(part.recycled, 0)::bigint AS units_recycled
  FROM stock.skus AS sku
  LEFT JOIN counted ON counted.sku_id = sku.id
  LEFT JOIN part ON part.sku_id = sku.id
 WHERE sku.name = ANY ($1)
 ORDER BY sku.name;
