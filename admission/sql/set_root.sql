-- Record the root of the tree over a draw's entries.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 the root.
-- Answers true when it stands now, no row when it did before or the leader's time has passed.
-- Safe under races: the entries are closed, so whoever works the root out finds the same one; the first is kept.
WITH progress AS (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    FOR UPDATE
)
UPDATE line.draws AS draw
SET root = $5, root_at = clock_timestamp()
FROM progress
WHERE draw.room = progress.room AND draw.epoch = progress.epoch AND draw.entries_closed_at IS NOT NULL AND draw.root IS NULL
RETURNING true;
