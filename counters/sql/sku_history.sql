-- The numbered ledger rows of a SKU in their order: what happened to its stock, by whom, and why.
--
-- p_after: only rows with a larger number; p_limit: at most so many. Answers one row each. Rows that the sequencer has not
-- reached yet are not among them. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.sku_history(p_sku integer, p_after bigint, p_limit integer) RETURNS TABLE (
    number bigint, at timestamptz, verb text, hold_id uuid, shard integer, seats text[], seat_state text, total_delta bigint,
    allowance_delta bigint, held_delta bigint, sold_delta bigint, actor text, source text, occurred_at timestamptz, reason text,
    operation_id uuid
) LANGUAGE sql STABLE AS $$
    SELECT known.number, entry.at, entry.verb, entry.hold_id, entry.shard, entry.seats, entry.seat_state, entry.total_delta,
           entry.allowance_delta, entry.held_delta, entry.sold_delta, entry.actor, entry.source, entry.occurred_at, entry.reason,
           entry.operation_id
      FROM stock.ledger_numbers AS known
      JOIN stock.ledger AS entry ON entry.sku_id = p_sku AND entry.id = known.ledger_id
     WHERE known.sku_id = p_sku AND known.number > p_after
     ORDER BY known.number LIMIT p_limit
$$;
