-- Put a fungible SKU on sale for a comparison, its stock spread over p_rows rows as evenly as whole units allow.
--
-- p_name: a new SKU's; p_total units; p_rows: 1, or p_total for one row a unit (which is no number of shards, so that stays 1).
-- Answers the SKU's number. Safe under races: UNIQUE sku_names_are_unique.
CREATE OR REPLACE FUNCTION stock_verbs.lay_out(p_name text, p_total bigint, p_rows bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku       integer;
    v_operation uuid := uuidv7();
BEGIN
    INSERT INTO stock.skus (name, title, kind, state, total, shards, hold_seconds, hold_seconds_max, extensions_max, payment_seconds_max)
    VALUES (p_name, p_name, 'fungible', 'on_sale', p_total, 1, 86400, 86400, 0, 300) RETURNING id INTO v_sku;
    WITH laid AS (
        INSERT INTO stock.sub_counters (sku_id, shard, total)
        SELECT v_sku, place, p_total / p_rows + CASE WHEN place < p_total % p_rows THEN 1 ELSE 0 END
          FROM generate_series(0, p_rows - 1) AS place
        RETURNING shard, total)
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, total_delta, actor)
    SELECT v_sku, v_operation, 'create', shard, total, 'operator:bench' FROM laid;
    ANALYZE stock.sub_counters;
    RETURN v_sku;
END $$;
