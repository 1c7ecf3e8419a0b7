-- Prove I1, I2, I4, I5 and I9 for one SKU from its own rows, in one snapshot.
--
-- Answers one row for each disagreement and none when the books balance: invariant, place (sub-counter, seat, hold or SKU),
-- what differs, the recorded figure, and the figure that it should be. Reads only; takes no lock.
CREATE OR REPLACE FUNCTION stock_verbs.audit(p_sku integer)
RETURNS TABLE (invariant text, place text, what text, recorded text, expected text) LANGUAGE sql STABLE AS $$
    SELECT * FROM stock_verbs.audit_counters(p_sku)
    UNION ALL SELECT * FROM stock_verbs.audit_seats(p_sku)
    UNION ALL SELECT * FROM stock_verbs.audit_holds(p_sku)
$$;

-- Sub-counters against holds, sales, stated total and ledger.
CREATE OR REPLACE FUNCTION stock_verbs.audit_counters(p_sku integer)
RETURNS TABLE (invariant text, place text, what text, recorded text, expected text) LANGUAGE sql STABLE AS $$
    WITH counter AS MATERIALIZED (SELECT * FROM stock_verbs.counter_truth(p_sku))
    SELECT 'I2', 'sub-counter ' || shard, 'held against its holds', held::text, true_held::text
      FROM counter WHERE held <> true_held
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'sold against its sales', sold::text, true_sold::text
      FROM counter WHERE sold <> true_sold
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'units given against units there are',
           (greatest(held, true_held) + greatest(sold, true_sold))::text, 'at most ' || (total + allowance)
      FROM counter WHERE greatest(held, true_held) + greatest(sold, true_sold) > total + allowance
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'the row itself', 'missing', 'present' FROM counter WHERE missing
    UNION ALL
    SELECT 'I2', 'sku', 'stated total against the sum of the sub-counters', sku.total::text, coalesce(sum(counter.total), 0)::text
      FROM stock.skus AS sku LEFT JOIN counter ON true
     WHERE sku.id = p_sku AND sku.kind = 'fungible'
     GROUP BY sku.total HAVING coalesce(sum(counter.total), 0) <> sku.total
    UNION ALL
    SELECT 'I2', 'sku', 'stated allowance against the sum of the sub-counters',
           sku.oversell_allowance::text, coalesce(sum(counter.allowance), 0)::text
      FROM stock.skus AS sku LEFT JOIN counter ON true
     WHERE sku.id = p_sku
     GROUP BY sku.oversell_allowance HAVING coalesce(sum(counter.allowance), 0) <> sku.oversell_allowance
    UNION ALL
    SELECT 'I9', 'sub-counter ' || shard, figure.name || ' against the replayed ledger',
           figure.recorded::text, figure.replayed::text
      FROM counter CROSS JOIN LATERAL (VALUES
           ('total', total, ledger_total), ('allowance', allowance, ledger_allowance),
           ('held', held, ledger_held), ('sold', sold, ledger_sold)) AS figure (name, recorded, replayed)
     WHERE figure.recorded <> figure.replayed
$$;

-- Seats against holds, sales, stated total and ledger.
CREATE OR REPLACE FUNCTION stock_verbs.audit_seats(p_sku integer)
RETURNS TABLE (invariant text, place text, what text, recorded text, expected text) LANGUAGE sql STABLE AS $$
    WITH seat AS MATERIALIZED (SELECT * FROM stock_verbs.seat_truth(p_sku))
    SELECT 'I2', 'sku', 'stated total against the number of seats', sku.total::text, count(seat.seat)::text
      FROM stock.skus AS sku LEFT JOIN seat ON seat.state <> 'missing'
     WHERE sku.id = p_sku AND sku.kind = 'seated'
     GROUP BY sku.total HAVING count(seat.seat) <> sku.total
    UNION ALL
    SELECT 'I2', 'seat ' || seat, 'state against its holds and sales', state, true_state FROM seat WHERE state <> true_state
    UNION ALL
    SELECT 'I2', 'seat ' || seat, 'whose it is', coalesce(hold_id::text, 'nobody''s'), coalesce(true_hold::text, 'nobody''s')
      FROM seat WHERE state = true_state AND hold_id IS DISTINCT FROM true_hold
    UNION ALL
    SELECT 'I1', 'seat ' || seat, 'holds and sales that claim it', claims::text, '1' FROM seat WHERE claims > 1
    UNION ALL
    SELECT 'I9', 'seat ' || seat, 'state against the replayed ledger', state, ledger_state FROM seat WHERE state <> ledger_state
    UNION ALL
    SELECT 'I9', 'sku', 'seats ' || figure.name || ' against the replayed ledger', figure.recorded::text, figure.replayed::text
      FROM (SELECT count(*) FILTER (WHERE state = 'held') AS held, count(*) FILTER (WHERE state = 'sold') AS sold
              FROM seat) AS now
     CROSS JOIN (SELECT coalesce(sum(held_delta), 0) AS held, coalesce(sum(sold_delta), 0) AS sold
                   FROM stock.ledger WHERE sku_id = p_sku AND shard = -1) AS replay
     CROSS JOIN LATERAL (VALUES
           ('held', now.held, replay.held), ('sold', now.sold, replay.sold)) AS figure (name, recorded, replayed)
     WHERE figure.recorded <> figure.replayed
$$;

-- Holds against their parts and sales. A hold is told at its first SKU, a part at its own.
CREATE OR REPLACE FUNCTION stock_verbs.audit_holds(p_sku integer)
RETURNS TABLE (invariant text, place text, what text, recorded text, expected text) LANGUAGE sql STABLE AS $$
    SELECT 'I5', 'hold ' || promise.id, format('parts of a %s hold, %s', promise.state, figure.name),
           figure.parts::text, figure.promised::text
      FROM stock_verbs.promises(p_sku) AS promise
     CROSS JOIN LATERAL (VALUES
           ('units', promise.units, promise.quantity),
           ('backordered units', promise.units_backordered, promise.backordered)) AS figure (name, parts, promised)
     WHERE figure.parts <> figure.promised
    UNION ALL
    SELECT 'I5', 'hold ' || part.hold_id, 'the hold of a part', 'missing', 'present'
      FROM stock.hold_parts AS part
     WHERE part.sku_id = p_sku
       AND NOT EXISTS (SELECT 1 FROM stock.holds AS hold WHERE hold.sku_id = part.lead_sku_id AND hold.id = part.hold_id)
    UNION ALL
    SELECT 'I4', 'hold ' || hold.id, 'state of a hold with a sale', hold.state, 'sold'
      FROM stock.holds AS hold
      JOIN stock.sales AS sale ON sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL
     WHERE hold.sku_id = p_sku AND hold.state <> 'sold'
    UNION ALL
    SELECT 'I4', 'hold ' || hold.id, 'sales of a sold hold', '0', '1'
      FROM stock.holds AS hold
     WHERE hold.sku_id = p_sku AND hold.state = 'sold'
       AND NOT EXISTS (
           SELECT 1 FROM stock.sales AS sale
            WHERE sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL)
$$;

-- One row for each live or sold hold of a lead SKU: what it promised, or sold when that is less, and what its parts say.
CREATE OR REPLACE FUNCTION stock_verbs.promises(p_sku integer) RETURNS TABLE (
    id uuid, state text, quantity bigint, backordered bigint, units bigint, units_backordered bigint
) LANGUAGE sql STABLE AS $$
    SELECT hold.id, hold.state,
           coalesce((SELECT sum(coalesce((line ->> 'quantity')::bigint, json_array_length(line -> 'seats')))
                       FROM json_array_elements(sale.lines) AS line)::bigint, hold.quantity),
           hold.backordered, coalesce(sum(part.quantity), 0)::bigint, coalesce(sum(part.backordered), 0)::bigint
      FROM stock.holds AS hold
      LEFT JOIN stock.sales AS sale ON sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL
      LEFT JOIN stock.hold_parts AS part ON part.hold_id = hold.id
     WHERE hold.sku_id = p_sku AND hold.state IN ('held', 'paying', 'sold')
     GROUP BY hold.sku_id, hold.id, sale.sku_id, sale.id
$$;
