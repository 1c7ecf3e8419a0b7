-- Remove everything that Fairgate has in a database: only ever run on one that `mark_stage.sql` has marked.
DO $$
DECLARE
    v_schema text;
BEGIN
    FOR v_schema IN SELECT nspname FROM pg_namespace
                     WHERE nspname IN ('chassis', 'line', 'stock') OR nspname ~ '^stock_verbs_[0-9a-f]{8}$'
    LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', v_schema);
    END LOOP;
    DROP TABLE IF EXISTS public.alembic_version;
END $$;
