-- Record that a draw's entries are closed: how far they were issued. From here no entry, gap or leaf is added.
-- When the pre-queue was to begin is kept beside, since the room may say otherwise once it is reset; a moment that had passed
-- before the commitment (again after a reset) is none at which anybody could enter, and is left out.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 the last entry issued.
-- Answers true when they are closed now, no row when they were before or the leader's time has passed.
-- Safe under races: Redis issues no entry any more and all of them are kept; the progress row is locked, so no gap can
-- appear meanwhile, and the draw's row waits for a leaf that is being restored.
WITH progress AS (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    FOR UPDATE
)
UPDATE line.draws AS draw
SET last_entry = $5, entries_closed_at = clock_timestamp(), prequeue_at = (
        SELECT room.prequeue_at FROM line.rooms AS room
        WHERE room.name = draw.room AND room.prequeue_at >= draw.committed_at
    )
FROM progress
WHERE draw.room = progress.room AND draw.epoch = progress.epoch AND draw.entries_closed_at IS NULL
RETURNING true;
