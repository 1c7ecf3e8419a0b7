-- Prove I2 and I9 for one SKU from its own rows, in one snapshot.
--
-- Answers one row for each disagreement and none when the books balance: invariant, place (sub-counter, seat or SKU),
-- what differs, the recorded figure, and the figure that it should be. Reads only; takes no lock.
CREATE OR REPLACE FUNCTION stock_verbs.audit(p_sku integer)
RETURNS TABLE (invariant text, place text, what text, recorded text, expected text) LANGUAGE sql STABLE AS $$
    WITH sku AS (SELECT * FROM stock.skus WHERE id = p_sku),
    counter AS MATERIALIZED (SELECT * FROM stock_verbs.counter_truth(p_sku)),
    seat AS MATERIALIZED (SELECT * FROM stock_verbs.seat_truth(p_sku))
    SELECT 'I2', 'sub-counter ' || shard, 'held against its holds', held::text, true_held::text FROM counter WHERE held <> true_held
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'sold against its sales', sold::text, true_sold::text FROM counter WHERE sold <> true_sold
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'units given against units there are', (true_held + true_sold)::text, '<= ' || (total + allowance)
      FROM counter WHERE greatest(held, true_held) + greatest(sold, true_sold) > total + allowance
    UNION ALL
    SELECT 'I2', 'sub-counter ' || shard, 'the row itself', 'missing', 'present' FROM counter WHERE missing
    UNION ALL
    SELECT 'I2', 'sku', 'sum of the sub-counters against the stated total', sum(counter.total)::text, sku.total::text
      FROM sku CROSS JOIN counter WHERE sku.kind = 'fungible' GROUP BY sku.total HAVING sum(counter.total) <> sku.total
    UNION ALL
    SELECT 'I2', 'sku', 'number of seats against the stated total', count(seat.seat)::text, sku.total::text
      FROM sku LEFT JOIN seat ON seat.state <> 'missing' WHERE sku.kind = 'seated' GROUP BY sku.total HAVING count(seat.seat) <> sku.total
    UNION ALL
    SELECT 'I2', 'seat ' || seat, 'state against its holds and sales', state, true_state FROM seat WHERE state <> true_state
    UNION ALL
    SELECT 'I2', 'seat ' || seat, 'whose it is', coalesce(hold_id::text, 'nobody''s'), coalesce(true_hold::text, 'nobody''s')
      FROM seat WHERE state = true_state AND hold_id IS DISTINCT FROM true_hold
    UNION ALL
    SELECT 'I1', 'seat ' || seat, 'holds and sales that claim it', claims::text, '1' FROM seat WHERE claims > 1
    UNION ALL
    SELECT 'I9', 'sub-counter ' || shard, figure.what, figure.recorded::text, figure.expected::text
      FROM counter CROSS JOIN LATERAL (VALUES
           ('total against the replayed ledger', total, ledger_total), ('allowance against the replayed ledger', allowance, ledger_allowance),
           ('held against the replayed ledger', held, ledger_held), ('sold against the replayed ledger', sold, ledger_sold)
      ) AS figure (what, recorded, expected)
     WHERE figure.recorded <> figure.expected
    UNION ALL
    SELECT 'I9', 'seat ' || seat, 'state against the replayed ledger', state, ledger_state FROM seat WHERE state <> ledger_state
    UNION ALL
    SELECT 'I5', 'hold ' || hold.id, 'units behind a live or sold hold', '0', 'at least 1'
      FROM stock.holds AS hold
     WHERE hold.sku_id = p_sku AND hold.state IN ('held', 'paying', 'sold')
       AND NOT EXISTS (SELECT 1 FROM stock.hold_parts AS part WHERE part.hold_id = hold.id)
    UNION ALL
    SELECT 'I4', 'hold ' || hold.id, 'sale of a hold that is not sold', hold.state, 'sold'
      FROM stock.holds AS hold JOIN stock.sales AS sale ON sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL
     WHERE hold.sku_id = p_sku AND hold.state <> 'sold'
    UNION ALL
    SELECT 'I4', 'hold ' || hold.id, 'sales of a sold hold', '0', '1'
      FROM stock.holds AS hold
     WHERE hold.sku_id = p_sku AND hold.state = 'sold'
       AND NOT EXISTS (SELECT 1 FROM stock.sales AS sale WHERE sale.sku_id = hold.sku_id AND sale.hold_id = hold.id AND sale.cancelled_at IS NULL)
$$;
