-- Note that a worker lives, and forget those that have not been seen for an hour with what they held.
-- $1 the worker's id. Answers nothing.
-- Safe under races: lock_shares.sql has locked all shares for this transaction.
WITH gone AS (
    DELETE FROM line.workers WHERE seen_at < clock_timestamp() - interval '1 hour'
), ended AS (
    DELETE FROM line.shares WHERE valid_until < clock_timestamp()
)
INSERT INTO line.workers (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp();
