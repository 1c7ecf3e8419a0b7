-- Close a draw: fix how many entries take part, and reveal its secret, which is its order. From here the places stand.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 the draw's secret, followed by its root and its beacon's value.
-- Answers true when it is closed now, no row when it was before or the leader's time has passed.
-- Safe under races: the entries are closed, so no gap can appear; each stage before stands in the same row.
WITH progress AS (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    FOR UPDATE
)
UPDATE line.draws AS draw
SET entries = draw.last_entry - coalesce((
        SELECT sum(gap.last - gap.first + 1) FROM line.gaps AS gap
        WHERE gap.room = draw.room AND gap.epoch = draw.epoch AND gap.kind = 'entry'
    ), 0),
    secret = $5,
    closed_at = clock_timestamp()
FROM progress
WHERE draw.room = progress.room AND draw.epoch = progress.epoch AND draw.closed_at IS NULL
  AND draw.root IS NOT NULL AND (draw.beacon IS NULL OR draw.beacon_at IS NOT NULL)
RETURNING true;
