-- Change how many units of a fungible SKU there are, and how many it may sell beyond them. Shared by create_sku and adjust;
-- never called from outside.
--
-- p_total, p_allowance: what they are to be; p_verb, p_source, p_reason, p_at: for the ledger; the allowance stands in
-- the SKU's row for the caller to write. p_accept: where p_total is not
-- to be had, leave as many units as are given; the rest is a shortage. The caller has locked the SKU's row. Answers one row:
--   done               short = the units that are missing (0 unless p_accept)
--   reclaim            so far, but not without due, unswept holds: answer = {sku_id}; run expire_due for it, then ask again
--   below-commitments  answer = {sku, total, allowance, held, sold, free, asked}: `asked` units were to go, `free` may;
--                      nothing was changed
-- A total may fall to what is held and sold and no further; where that is more than the total already, because of an
-- allowance, it does not fall at all. An allowance may fall to what was given beyond the total.
-- Safe under races: all the SKU's sub-counters are locked, ascending, before anything is counted.
CREATE OR REPLACE FUNCTION stock_verbs.restock(
    p_sku stock.skus, p_total bigint, p_allowance bigint, p_accept boolean, p_verb text, p_actor text, p_operation uuid,
    p_source text DEFAULT NULL, p_reason text DEFAULT NULL, p_at timestamptz DEFAULT NULL
) RETURNS TABLE (outcome text, answer text, short bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sum   record;
    v_due   bigint := 0;
    v_floor bigint;
    v_total bigint;
BEGIN
    PERFORM 1 FROM stock.sub_counters WHERE sku_id = p_sku.id ORDER BY shard FOR NO KEY UPDATE;
    SELECT sum(total)::bigint AS total, sum(allowance)::bigint AS allowance, sum(held)::bigint AS held, sum(sold)::bigint AS sold
      INTO v_sum FROM stock.sub_counters WHERE sku_id = p_sku.id;
    v_floor := least(v_sum.total, v_sum.held + v_sum.sold);
    IF p_total < v_floor OR v_sum.held + v_sum.sold > p_total + p_allowance THEN
        v_due := stock_verbs.due_units(p_sku.id, clock_timestamp());
    END IF;
    v_total := CASE WHEN p_accept THEN greatest(p_total, v_floor) ELSE p_total END;
    short := v_total - p_total;
    outcome := CASE
        WHEN v_total >= v_floor AND v_sum.held + v_sum.sold <= v_total + p_allowance AND (short = 0 OR v_due = 0) THEN 'done'
        WHEN p_accept AND v_due > 0
          OR least(v_sum.total, v_sum.held - v_due + v_sum.sold) <= p_total
             AND v_sum.held - v_due + v_sum.sold <= p_total + p_allowance THEN 'reclaim'
        ELSE 'below-commitments'
    END;
    IF outcome = 'done' THEN
        IF v_total <> v_sum.total THEN
            PERFORM stock_verbs.spread(
                p_sku.id, v_total, v_sum.allowance, p_verb, p_actor, p_operation, p_source, p_reason, p_at);
        END IF;
        IF p_allowance <> v_sum.allowance THEN
            PERFORM stock_verbs.spread(p_sku.id, v_total, p_allowance, 'allow', p_actor, p_operation);
        END IF;
        UPDATE stock.skus SET total = v_total WHERE id = p_sku.id;
    ELSIF outcome = 'reclaim' THEN
        answer := json_build_object('sku_id', p_sku.id)::text;
    ELSE
        answer := json_build_object(
            'sku', p_sku.name, 'total', v_sum.total, 'allowance', v_sum.allowance, 'held', v_sum.held - v_due,
            'sold', v_sum.sold, 'free', greatest(v_sum.total - v_sum.held + v_due - v_sum.sold, 0),
            'asked', greatest(v_sum.total - p_total, 0))::text;
    END IF;
    RETURN NEXT;
END $$;
