-- Forget what can no longer matter: revocations of passes and recovery codes that have expired, calls whose turns are over, and who
-- entered the draws of ended epochs, but for late entries; their leaves stay.
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
), entered AS (
    DELETE FROM line.entries AS entry
    USING (
        SELECT entry.room, entry.epoch, entry.entry
        FROM line.rooms AS room
        JOIN line.entries AS entry ON entry.room = room.name AND entry.epoch < room.epoch
        WHERE NOT entry.late
        LIMIT $1 FOR UPDATE OF entry SKIP LOCKED
    ) AS ended
    WHERE entry.room = ended.room AND entry.epoch = ended.epoch AND entry.entry = ended.entry
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
