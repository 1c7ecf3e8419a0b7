-- Whose data a database holds. Answers one row: 'empty' (nothing of ours), 'demo' (marked by a demo), or 'ours'.
SELECT CASE
    WHEN to_regnamespace('chassis') IS NULL AND to_regnamespace('stock') IS NULL THEN 'empty'
    WHEN obj_description(to_regnamespace('chassis'), 'pg_namespace') LIKE 'fairgate demo:%' THEN 'demo'
    ELSE 'ours'
END;
