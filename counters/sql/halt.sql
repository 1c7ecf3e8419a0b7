-- Halt the sale of a SKU at once, or resume it: reserves answer not-on-sale, what is held may still be paid, confirmed and
-- released.
--
-- p_state: 'halted' or 'on_sale'; p_reason goes into the ledger, in a row that moves nothing. Answers one row:
--   done         answer = {sku, state}; it is so already, or it is so from now on
--   not-on-sale  a draft or an ended SKU is neither halted nor resumed: answer = {sku, state}
-- Safe under races: judged and changed on the locked row. A reserve that began before may still be granted.
CREATE OR REPLACE FUNCTION stock_verbs.halt(p_sku integer, p_state text, p_reason text, p_actor text, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku stock.skus;
BEGIN
    SELECT * INTO STRICT v_sku FROM stock.skus WHERE id = p_sku FOR NO KEY UPDATE;
    outcome := 'not-on-sale';
    IF v_sku.state IN ('halted', 'on_sale') THEN
        outcome := 'done';
        IF v_sku.state <> p_state THEN
            UPDATE stock.skus SET state = p_state WHERE id = p_sku RETURNING * INTO v_sku;
            INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, actor, reason)
            SELECT p_sku, p_operation, CASE p_state WHEN 'halted' THEN 'halt' ELSE 'resume' END, CASE seated WHEN true THEN -1 ELSE 0 END,
                   CASE WHEN seated THEN '{}'::text[] END, CASE WHEN seated THEN 'available' END, p_actor, p_reason
              FROM (SELECT v_sku.kind = 'seated' AS seated) AS kind;
        END IF;
    END IF;
    answer := json_build_object('sku', v_sku.name, 'state', v_sku.state)::text;
    RETURN NEXT;
END $$;
