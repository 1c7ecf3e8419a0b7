-- Keep other workers from taking shares until this transaction ends.
-- No parameters. Answers nothing of use.
-- Safe under races: an advisory lock of the transaction, which PgBouncer's transaction mode keeps too.
SELECT pg_advisory_xact_lock(hashtextextended('line shares', 0));
