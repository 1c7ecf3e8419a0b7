-- Forget what can no longer matter: revocations of passes and recovery codes that have expired, and calls whose turns are over.
-- $1 how many rows of each at most. Answers nothing.
-- Safe under races: rows that others prune at the same time are skipped; nothing pruned is read by anybody.
WITH expired AS (
    DELETE FROM line.revocations
    WHERE jti IN (
        SELECT jti FROM line.revocations
        WHERE expires_at < extract(epoch FROM clock_timestamp()) - 3600
        LIMIT $1 FOR UPDATE SKIP LOCKED
    )
), stale AS (
    DELETE FROM line.recoveries
    WHERE (room, epoch, ticket_id) IN (
        SELECT room, epoch, ticket_id FROM line.recoveries
        WHERE expires_at < clock_timestamp()
        LIMIT $1 FOR UPDATE SKIP LOCKED
    )
)
DELETE FROM line.calls AS call
USING (
    SELECT call.room, call.epoch, call.called
    FROM line.calls AS call
    JOIN line.progress AS progress ON progress.room = call.room AND progress.epoch = call.epoch
    WHERE call.called <= progress.over
    LIMIT $1 FOR UPDATE OF call SKIP LOCKED
) AS ended
WHERE call.room = ended.room AND call.epoch = ended.epoch AND call.called = ended.called;
