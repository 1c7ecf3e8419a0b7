-- Give one hold's units back, by the product's own release on the comparison's tables.
--
-- Parameters and answers as in release, for one member. Safe under races: as release is.
CREATE OR REPLACE FUNCTION stock_verbs.release_one(p_sku integer, p_hold uuid, p_fence bigint, p_caller text)
RETURNS TABLE (outcome text, answer text) LANGUAGE sql VOLATILE AS $$
    SELECT outcome, answer FROM stock_verbs.release(p_sku, ARRAY[p_hold], ARRAY[p_fence], ARRAY[p_caller])
$$;
