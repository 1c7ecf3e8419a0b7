-- Forget idempotency keys past their time. What they led to stays; only that a repeat is a repeat is forgotten.
--
-- p_sku: of these records. p_before: older than this, and never younger than 24 hours. p_limit: at most so many. Answers one
-- row: `pruned`, how many. A record stays for as long as its hold lives.
-- Found by the primary key, whose operation ids are ordered by time (UUIDv7, RFC 9562: the first 48 bits are milliseconds).
-- Safe under races: it waits for nobody and passes over what others have locked; a hold that has ended does not live again
-- under another key.
CREATE OR REPLACE FUNCTION stock_verbs.prune(p_sku integer, p_before timestamptz, p_limit integer)
RETURNS TABLE (pruned integer) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    v_before timestamptz := least(p_before, clock_timestamp() - interval '24 hours');
    v_until  uuid := stock_verbs.id_at(v_before);
BEGIN
    DELETE FROM stock.idempotency
     WHERE sku_id = p_sku AND operation_id = ANY (ARRAY (
           SELECT record.operation_id FROM stock.idempotency AS record
            WHERE record.sku_id = p_sku AND record.operation_id < v_until AND record.created_at < v_before
              AND NOT EXISTS (
                  SELECT FROM stock.holds AS hold
                   WHERE hold.sku_id = record.sku_id AND hold.id = record.hold_id AND hold.ended_at IS NULL)
            ORDER BY record.operation_id LIMIT p_limit FOR UPDATE OF record SKIP LOCKED));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN NEXT;
END $$;
