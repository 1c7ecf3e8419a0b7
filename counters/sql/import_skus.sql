-- Put several SKUs, all or none.
--
-- p_skus: [{"rules", "seats"}], each as in create_sku. Answers one row for each SKU, created, changed or unchanged; when one
-- is refused, the last row is that refusal, and nothing was changed, whatever the rows before it say.
-- Safe under races: the rows of those that exist, and the sub-counters of those whose stock changes, are locked first, in the
-- one order; then SKUs are put in the order of their names, each as create_sku does it. The refusal is raised inside,
-- so that what came before it is undone with it.
CREATE OR REPLACE FUNCTION stock_verbs.import_skus(p_skus jsonb, p_actor text, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku jsonb;
BEGIN
    PERFORM 1 FROM stock.skus
      WHERE name IN (SELECT sku -> 'rules' ->> 'name' FROM jsonb_array_elements(p_skus) AS sku) ORDER BY id FOR NO KEY UPDATE;
    PERFORM 1 FROM stock.sub_counters
      WHERE sku_id IN (
            SELECT known.id
              FROM jsonb_array_elements(p_skus) AS sku
             CROSS JOIN LATERAL jsonb_populate_record(NULL::stock.skus, sku -> 'rules') AS asked
              JOIN stock.skus AS known ON known.name = asked.name
             WHERE known.total IS DISTINCT FROM asked.total
                OR known.oversell_allowance <> coalesce((sku -> 'rules' -> 'oversell' ->> 'allowance')::bigint, 0))
      ORDER BY sku_id, shard FOR NO KEY UPDATE;
    FOR v_sku IN SELECT sku FROM jsonb_array_elements(p_skus) AS sku ORDER BY sku -> 'rules' ->> 'name' COLLATE "C" LOOP
        SELECT * INTO STRICT outcome, answer
          FROM stock_verbs.create_sku(v_sku -> 'rules', nullif(v_sku -> 'seats', 'null'), p_actor, p_operation);
        IF outcome NOT IN ('created', 'changed', 'unchanged') THEN
            RAISE EXCEPTION 'refused' USING ERRCODE = 'FG001';
        END IF;
        RETURN NEXT;
    END LOOP;
EXCEPTION WHEN SQLSTATE 'FG001' THEN
    RETURN NEXT;
END $$;
