-- Put several SKUs, all or none.
--
-- p_skus: [{"rules", "seats"}], each as in create_sku. Answers one row for each SKU, created, changed or unchanged; when one
-- is refused, the last row is that refusal, and nothing was changed, whatever the rows before it say.
-- Safe under races: SKUs are put in the order of their names, each as create_sku does it. The refusal is raised inside,
-- so that what came before it is undone with it.
CREATE OR REPLACE FUNCTION stock_verbs.import_skus(p_skus jsonb, p_actor text, p_operation uuid)
RETURNS TABLE (outcome text, answer text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku jsonb;
BEGIN
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
