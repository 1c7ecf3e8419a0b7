-- Close a draw: fix how many entries take part, and reveal its secret. From here the order stands.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 entries issued, $6 the draw's secret.
-- Answers true when it is closed now, no row when it was before or the leader's time has passed.
-- Safe under races: Redis issues no entry any more; the progress row is locked, so no gap can appear meanwhile.
WITH progress AS (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    FOR UPDATE
)
UPDATE line.draws AS draw
SET entries = $5::bigint - coalesce((
        SELECT sum(gap.last - gap.first + 1) FROM line.gaps AS gap
        WHERE gap.room = draw.room AND gap.epoch = draw.epoch AND gap.kind = 'entry'
    ), 0),
    secret = $6,
    closed_at = clock_timestamp()
FROM progress
WHERE draw.room = progress.room AND draw.epoch = progress.epoch AND draw.closed_at IS NULL
RETURNING true;
