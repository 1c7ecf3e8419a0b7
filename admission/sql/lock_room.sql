-- Keep other operators off a room, existing or not, until this transaction ends.
-- $1 name. Answers the database's clock.
-- Safe under races: an advisory lock of the transaction, which PgBouncer's transaction mode keeps too.
SELECT clock_timestamp() AS now FROM (SELECT pg_advisory_xact_lock(hashtextextended('room ' || $1, 0))) AS locked;
