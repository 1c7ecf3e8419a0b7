-- Give the committed ledger rows of a SKU that have no number yet the next ones, in the order of their identities: the
-- sequencer. The numbers are the order of events, without gaps; ledger rows themselves never change.
--
-- p_limit: at most so many in one pass. Answers one row: how many were numbered, and whether more are due.
-- An identity is drawn after its move has locked its rows, so of two moves that touch the same row the earlier has the smaller
-- one, and is visible when the later is: a cause is numbered before its effect. A move that commits late with a small identity
-- is found by the next pass, for a pass reads again all that may still be going on: every row above settled_id. Whoever drew an
-- identity has a transaction id by then (it holds row locks), and a pass that finds pending_id has a later one itself: once every
-- transaction below that has ended, no row can turn up any more up to pending_id, and so far the ledger is settled. (The xmax of
-- the snapshot that saw pending_id would not do: it is one past the last that had ended, and lies below some that had begun.)
-- Safe under races: the sequencer's row is locked; a second pass at the same time finds it locked and numbers nothing. A pass
-- that dies numbers nothing. UNIQUE a_ledger_row_is_numbered_once and the primary key say the same.
CREATE OR REPLACE FUNCTION stock_verbs.number_ledger(p_sku integer, p_limit integer)
RETURNS TABLE (numbered bigint, more boolean) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan AS $$  -- how much lies above settled_id only its value tells: a third of the table, or a few rows
DECLARE
    v_sequencer stock.sequencers;
    v_pass      record;
BEGIN
    numbered := 0;
    more := false;
    INSERT INTO stock.sequencers (sku_id)  -- a SKU of an earlier version has none yet
    SELECT p_sku WHERE NOT EXISTS (SELECT 1 FROM stock.sequencers WHERE sku_id = p_sku) ON CONFLICT DO NOTHING;
    SELECT * INTO v_sequencer FROM stock.sequencers WHERE sku_id = p_sku FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- One statement, one snapshot: what it sees of the ledger and what it says about transactions belong together.
    WITH seen AS MATERIALIZED (
        -- Asked for row by row: a join might read every number that there is while statistics are old.
        SELECT entry.id, (SELECT known.number FROM stock.ledger_numbers AS known
                           WHERE known.sku_id = p_sku AND known.ledger_id = entry.id) IS NULL AS is_new
          FROM stock.ledger AS entry
         WHERE entry.sku_id = p_sku AND entry.id > v_sequencer.settled_id ORDER BY entry.id
    ), next AS (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM seen WHERE is_new ORDER BY id LIMIT p_limit
    ), written AS (
        INSERT INTO stock.ledger_numbers (sku_id, number, ledger_id)
        SELECT p_sku, v_sequencer.number + place, id FROM next ORDER BY place
        RETURNING ledger_id
    )
    SELECT (SELECT count(*) FROM written) AS numbered,
           (SELECT count(*) FROM seen WHERE is_new) > p_limit AS more,
           -- Every row that is visible up to here has its number.
           CASE WHEN (SELECT count(*) FROM seen WHERE is_new) > p_limit THEN (SELECT max(ledger_id) FROM written)
                ELSE (SELECT max(id) FROM seen) END AS upto,
           pg_snapshot_xmin(pg_current_snapshot()) AS xmin
      INTO v_pass;
    numbered := v_pass.numbered;
    more := v_pass.more;
    v_sequencer.pending_xmax := coalesce(v_sequencer.pending_xmax, pg_current_xact_id());
    IF v_sequencer.pending_xmax <= v_pass.xmin AND v_sequencer.pending_id <= coalesce(v_pass.upto, v_sequencer.pending_id) THEN
        v_sequencer.settled_id := v_sequencer.pending_id;
        v_sequencer.pending_id := greatest(v_pass.upto, v_sequencer.settled_id);
        v_sequencer.pending_xmax := NULL;
    END IF;
    v_sequencer.number := v_sequencer.number + numbered;
    UPDATE stock.sequencers AS sequencer
       SET number = v_sequencer.number, settled_id = v_sequencer.settled_id,
           pending_id = v_sequencer.pending_id, pending_xmax = v_sequencer.pending_xmax
     WHERE sequencer.sku_id = p_sku AND sequencer IS DISTINCT FROM v_sequencer;
    RETURN NEXT;
END $$;

-- The SKUs with ledger rows that are not settled yet: only those have anything to number. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.unsettled_skus() RETURNS TABLE (sku_id integer) LANGUAGE sql STABLE AS $$
    SELECT sku.id FROM stock.skus AS sku LEFT JOIN stock.sequencers AS sequencer ON sequencer.sku_id = sku.id
     CROSS JOIN LATERAL (SELECT 1 FROM stock.ledger AS entry
                          WHERE entry.sku_id = sku.id AND entry.id > coalesce(sequencer.settled_id, 0)
                          ORDER BY entry.id LIMIT 1) AS unsettled
     ORDER BY sku.id
$$;
