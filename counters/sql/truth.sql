-- What the books should say, recomputed from holds, sales and ledger. Reads only; shared by audit and repair.

-- One row for each sub-counter of a SKU, and for each that only holds or ledger know: what it says, what its holds and
-- sales say, and what the replayed ledger says. `missing` is true where the row itself is gone.
CREATE OR REPLACE FUNCTION stock_verbs.counter_truth(p_sku integer) RETURNS TABLE (
    shard integer, missing boolean, total bigint, allowance bigint, held bigint, sold bigint,
    true_held bigint, true_sold bigint, ledger_total bigint, ledger_allowance bigint, ledger_held bigint, ledger_sold bigint
) LANGUAGE sql STABLE AS $$
    WITH unit AS (
        SELECT part.shard,
               coalesce(sum(part.quantity) FILTER (WHERE hold.state IN ('held', 'paying')), 0)::bigint AS held,
               coalesce(sum(part.quantity) FILTER (WHERE sale.id IS NOT NULL), 0)::bigint AS sold
          FROM stock.hold_parts AS part
          JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
          LEFT JOIN stock.sales AS sale ON sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL
         WHERE part.sku_id = p_sku AND part.shard >= 0
         GROUP BY part.shard
    ), replay AS (
        SELECT entry.shard, sum(entry.total_delta)::bigint AS total, sum(entry.allowance_delta)::bigint AS allowance,
               sum(entry.held_delta)::bigint AS held, sum(entry.sold_delta)::bigint AS sold
          FROM stock.ledger AS entry WHERE entry.sku_id = p_sku AND entry.shard >= 0
         GROUP BY entry.shard
    )
    SELECT shard, counter.sku_id IS NULL, coalesce(counter.total, 0), coalesce(counter.allowance, 0),
           coalesce(counter.held, 0), coalesce(counter.sold, 0), coalesce(unit.held, 0), coalesce(unit.sold, 0),
           coalesce(replay.total, 0), coalesce(replay.allowance, 0), coalesce(replay.held, 0), coalesce(replay.sold, 0)
      FROM (SELECT * FROM stock.sub_counters WHERE sku_id = p_sku) AS counter
      FULL JOIN unit USING (shard) FULL JOIN replay USING (shard)
     ORDER BY shard
$$;

-- One row for each seat of a seated SKU: its state, what holds and sales say, how many of them claim it, and what the
-- ledger said last.
CREATE OR REPLACE FUNCTION stock_verbs.seat_truth(p_sku integer) RETURNS TABLE (
    seat text, state text, hold_id uuid, true_state text, true_hold uuid, claims bigint, ledger_state text
) LANGUAGE sql STABLE AS $$
    WITH claim AS (
        SELECT named.seat, count(*) AS claims, min(hold.id::text)::uuid AS hold_id,
               min(CASE WHEN sale.id IS NOT NULL THEN 'sold' ELSE 'held' END) AS state
          FROM stock.hold_parts AS part
          JOIN stock.holds AS hold ON hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id
          LEFT JOIN stock.sales AS sale ON sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL
         CROSS JOIN LATERAL unnest(part.seats) AS named (seat)
         WHERE part.sku_id = p_sku AND part.shard = -1 AND (hold.state IN ('held', 'paying') OR sale.id IS NOT NULL)
         GROUP BY named.seat
    ), replay AS (
        SELECT DISTINCT ON (named.seat) named.seat, entry.seat_state
          FROM stock.ledger AS entry CROSS JOIN LATERAL unnest(entry.seats) AS named (seat)
         WHERE entry.sku_id = p_sku AND entry.shard = -1
         ORDER BY named.seat, entry.id DESC
    )
    SELECT seat, coalesce(row.state, 'missing'), row.hold_id,
           -- Whether a seat is blocked, no hold can tell: the ledger knows, and where it knows neither, the row.
           coalesce(claim.state, CASE WHEN replay.seat_state IN ('blocked', 'available') THEN replay.seat_state
                                      WHEN row.state = 'blocked' THEN 'blocked' ELSE 'available' END), claim.hold_id,
           coalesce(claim.claims, 0), coalesce(replay.seat_state, 'missing')
      FROM (SELECT * FROM stock.seats WHERE sku_id = p_sku) AS row
      FULL JOIN claim USING (seat) FULL JOIN replay USING (seat)
     ORDER BY seat
$$;
