-- What the live view shows of the stock, in one snapshot.
-- $1 the SKUs' names. Answers one row for each: name, kind, total, held, sold, what came back (expired and released
-- units), how many holds are due but not swept, how many wait for a payment, and the free units of each sub-counter.
-- `off` counts the sub-counters whose figures disagree with their own holds and sales (I2): it must read 0.
-- Reads only; one statement is one snapshot, so figures of one row belong together.
WITH units AS (
    SELECT part.sku_id, part.shard,
           coalesce(sum(part.quantity) FILTER (WHERE hold.state IN ('held', 'paying')), 0) AS held,
           coalesce(sum(part.quantity) FILTER (WHERE hold.state = 'sold'), 0) AS sold,
           coalesce(sum(part.quantity) FILTER (WHERE hold.state IN ('expired', 'released')), 0) AS returned,
           count(*) FILTER (WHERE hold.state = 'held' AND hold.expires_at <= clock_timestamp()) AS due,
           count(*) FILTER (WHERE hold.state = 'paying') AS paying
      FROM stock.hold_parts AS part
      JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
     GROUP BY part.sku_id, part.shard
)
SELECT sku.name, sku.kind, sku.total,
       (SELECT coalesce(sum(units.held), 0)::bigint FROM units WHERE units.sku_id = sku.id) AS held,
       (SELECT coalesce(sum(units.sold), 0)::bigint FROM units WHERE units.sku_id = sku.id) AS sold,
       (SELECT coalesce(sum(units.returned), 0)::bigint FROM units WHERE units.sku_id = sku.id) AS returned,
       (SELECT coalesce(sum(units.due), 0)::bigint FROM units WHERE units.sku_id = sku.id) AS due,
       (SELECT coalesce(sum(units.paying), 0)::bigint FROM units WHERE units.sku_id = sku.id) AS paying,
       ARRAY (SELECT c.total + c.allowance - c.held - c.sold FROM stock.sub_counters AS c WHERE c.sku_id = sku.id ORDER BY c.shard) AS levels,
       (SELECT count(*) FROM stock.sub_counters AS c
          LEFT JOIN units ON units.sku_id = c.sku_id AND units.shard = c.shard
         WHERE c.sku_id = sku.id AND (c.held, c.sold) IS DISTINCT FROM (coalesce(units.held, 0), coalesce(units.sold, 0))) AS off
  FROM stock.skus AS sku
 WHERE sku.name = ANY ($1)
 ORDER BY array_position($1, sku.name);
