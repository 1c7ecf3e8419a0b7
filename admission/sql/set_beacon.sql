-- Record the value of the beacon that a draw has committed to, or that it did not come.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 the value, or null to go on without it, $6 how many seconds
-- after the close of entries that is allowed.
-- Answers true when it is recorded now; no row when it was before, when it is too early to go on without, where the draw has
-- committed to wait, or when the leader's time has passed.
-- Safe under races: the root stands before; the first that is recorded is kept.
WITH progress AS (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    FOR UPDATE
)
UPDATE line.draws AS draw
SET beacon_value = $5::bytea, beacon_missed = $5::bytea IS NULL, beacon_at = clock_timestamp()
FROM progress
WHERE draw.room = progress.room AND draw.epoch = progress.epoch
  AND draw.root IS NOT NULL AND draw.beacon IS NOT NULL AND draw.beacon_at IS NULL
  AND ($5::bytea IS NOT NULL OR (
      draw.beacon ->> 'fallback' = 'without'
      AND draw.entries_closed_at + make_interval(secs => $6::double precision) < clock_timestamp()
  ))
RETURNING true;
