-- Lock the holds that verbs are about, and say whether each verb may act on its own. Shared by the verbs on holds; reads of
-- a single hold stand here too.
--
-- p_holds: one element a member; p_sku leads all of these holds. Answers, one element a hold that exists, ordered by its id: the
-- member's place (from 1), the row as it is now, and the clock as read after all the locks. What their states allow is the
-- verb's to judge.
-- Safe under races: rows are locked in ascending order and stay so until the transaction ends. The planner may look at these
-- tables while they are empty, and keep what it decides then: so here, as in all verbs for many, rows are found by = ANY (…)
-- over an index, and only what was found so is joined, by hash.
CREATE OR REPLACE FUNCTION stock_verbs.lock_holds(
    p_sku integer, p_holds uuid[], OUT places integer[], OUT holds stock.holds[], OUT now timestamptz
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    SELECT coalesce(array_agg(member.place::integer ORDER BY member.id, member.place), '{}'),
           coalesce(array_agg(locked.hold ORDER BY member.id, member.place), '{}')
      INTO places, holds
      FROM unnest(p_holds) WITH ORDINALITY AS member (id, place)
      JOIN (SELECT hold FROM stock.holds AS hold
             WHERE hold.sku_id = p_sku AND hold.id = ANY (p_holds) ORDER BY hold.id FOR NO KEY UPDATE) AS locked
           ON (locked.hold).id = member.id;
    now := clock_timestamp();
END $$;

-- The same for one hold, with its refusal.
CREATE OR REPLACE FUNCTION stock_verbs.lock_hold(
    p_sku integer, p_hold uuid, p_fence bigint, p_caller text, OUT hold stock.holds, OUT now timestamptz, OUT refusal text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT * INTO hold FROM stock.holds WHERE sku_id = p_sku AND id = p_hold FOR NO KEY UPDATE;
    now := clock_timestamp();
    refusal := CASE WHEN hold.id IS NULL THEN 'not-found' ELSE stock_verbs.refusal(hold, p_fence, p_caller) END;
END $$;

-- Why a caller may not act on a hold, whatever its state: not-found, stale-fence, or null.
--
-- p_fence: the caller's fence, or null where none is asked for. p_caller: 'shop:client', which may act on all holds but
-- another shop's; 'buyer:room:ticket', which may act on its own; or null, ourselves.
CREATE OR REPLACE FUNCTION stock_verbs.refusal(p_hold stock.holds, p_fence bigint, p_caller text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN NOT stock_verbs.may_act(p_hold, p_caller) THEN 'not-found'
                WHEN p_hold.fence <> p_fence THEN 'stale-fence' END
$$;

-- Whether a caller may act on a hold at all; a foreign hold looks as if it did not exist.
CREATE OR REPLACE FUNCTION stock_verbs.may_act(p_hold stock.holds, p_caller text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_caller IS NULL THEN true
        WHEN p_caller LIKE 'shop:%' THEN p_hold.actor NOT LIKE 'shop:%' OR p_hold.actor = p_caller
        ELSE p_hold.owner IS NOT DISTINCT FROM p_caller
    END
$$;

-- How a hold has ended at p_now, as a refusal: hold-expired, hold-released, hold-sold; null while it lives.
CREATE OR REPLACE FUNCTION stock_verbs.ended(p_hold stock.holds, p_now timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_hold.state = 'expired' OR p_hold.state = 'held' AND p_hold.expires_at <= p_now THEN 'hold-expired'
        WHEN p_hold.state IN ('released', 'cancelled') THEN 'hold-released'
        WHEN p_hold.state = 'sold' THEN 'hold-sold'
    END
$$;

-- Read one hold as p_caller may see it. Answers ('done', document) or ('not-found', null).
CREATE OR REPLACE FUNCTION stock_verbs.read_hold(p_sku integer, p_hold uuid, p_caller text)
RETURNS TABLE (outcome text, answer text) LANGUAGE sql STABLE AS $$
    SELECT coalesce(max('done'), 'not-found'), max(stock_verbs.hold_document(hold, clock_timestamp()))
      FROM stock.holds AS hold
     WHERE hold.sku_id = p_sku AND hold.id = p_hold AND stock_verbs.may_act(hold, p_caller)
$$;
