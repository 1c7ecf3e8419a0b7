-- What stands written about one SKU, and by how much its holds exceed its stock. $1 the SKU's number. Reads only.
SELECT (SELECT count(*) FROM stock.holds WHERE sku_id = $1) AS holds,
       (SELECT count(DISTINCT operation_id) FROM stock.ledger WHERE sku_id = $1 AND verb = 'reserve') AS moves,
       (SELECT count(*) FROM stock.idempotency WHERE sku_id = $1) AS keys,
       given.units, greatest(given.units - stocked.units, 0) AS oversold
  FROM (SELECT coalesce(sum(part.quantity), 0)::bigint AS units
          FROM stock.hold_parts AS part
          JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
         WHERE part.sku_id = $1 AND hold.state IN ('held', 'paying', 'sold')) AS given
 CROSS JOIN (SELECT coalesce(sum(total + allowance), 0)::bigint AS units
               FROM stock.sub_counters WHERE sku_id = $1) AS stocked;
