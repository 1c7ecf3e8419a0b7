-- One SKU by its name: its number, kind, room and rules. Answers no row for an unknown name. Reads only.
CREATE OR REPLACE FUNCTION stock_verbs.find_sku(p_name text)
RETURNS TABLE (id integer, kind text, room text, rules jsonb) LANGUAGE sql STABLE AS $$
    SELECT sku.id, sku.kind, sku.room, to_jsonb(sku) || jsonb_build_object(
               'oversell', jsonb_build_object('policy', sku.oversell_policy, 'allowance', sku.oversell_allowance))
      FROM stock.skus AS sku WHERE sku.name = p_name
$$;
