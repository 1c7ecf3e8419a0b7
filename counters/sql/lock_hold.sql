-- Lock one hold and say whether a verb with this fence may act on it. Shared by paying, confirm, release and extend.
--
-- p_fence: the caller's fence, or null where none is asked for. p_caller: 'shop:client', which may act on all holds but
-- another shop's; 'buyer:room:ticket', which may act on its own; or null, ourselves. Answers the hold's row, the clock as
-- read after the lock, and a refusal: not-found, stale-fence, or null. What the hold's state allows is the verb's to judge.
-- Safe under races: the row stays locked until the verb's transaction ends, and the clock is read after the lock.
CREATE OR REPLACE FUNCTION stock_verbs.lock_hold(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, OUT hold stock.holds, OUT now timestamptz, OUT refusal text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT * INTO hold FROM stock.holds WHERE sku_id = p_sku AND id = p_hold FOR NO KEY UPDATE;
    now := clock_timestamp();
    refusal := CASE
        WHEN hold.id IS NULL OR NOT stock_verbs.may_act(hold, p_caller) THEN 'not-found'
        WHEN p_fence IS NOT NULL AND hold.fence <> p_fence THEN 'stale-fence'
    END;
END $$;

-- Whether a caller may act on a hold at all; a foreign hold looks as if it did not exist.
CREATE OR REPLACE FUNCTION stock_verbs.may_act(p_hold stock.holds, p_caller text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_caller IS NULL THEN true
        WHEN p_caller LIKE 'shop:%' THEN p_hold.actor NOT LIKE 'shop:%' OR p_hold.actor = p_caller
        ELSE p_hold.owner IS NOT DISTINCT FROM p_caller
    END
$$;

-- Read one hold as p_caller may see it. Answers ('done', document) or ('not-found', null).
CREATE OR REPLACE FUNCTION stock_verbs.read_hold(p_sku integer, p_hold uuid, p_caller text)
RETURNS TABLE (outcome text, answer text) LANGUAGE sql STABLE AS $$
    SELECT coalesce(max('done'), 'not-found'), max(stock_verbs.hold_document(hold, clock_timestamp()))
      FROM stock.holds AS hold
     WHERE hold.sku_id = p_sku AND hold.id = p_hold AND stock_verbs.may_act(hold, p_caller)
$$;
