-- Begin a room's epoch: its progress, and its draw's secret before anybody can join.
-- $1 room, $2 epoch, $3 the draw's sealed secret, $4 its commitment, $5 how places are given (draw or fifo), $6 the beacon that
-- the commitment names, or null. Answers nothing; a repeat keeps the first.
-- Safe under races: primary keys let one leader's values win, and everybody reads them from here. The room's row is locked, so
-- that no operator changes its beacon meanwhile; a commitment to another beacon than the room's is not kept.
WITH room AS (
    SELECT name, epoch FROM line.rooms
    WHERE name = $1 AND epoch = $2 AND beacon IS NOT DISTINCT FROM $6::jsonb
    FOR SHARE
), progress AS (
    INSERT INTO line.progress (room, epoch, ordered_by) SELECT name, epoch, $5 FROM room ON CONFLICT DO NOTHING
)
INSERT INTO line.draws (room, epoch, sealed_secret, commitment, beacon)
SELECT name, epoch, $3, $4, $6::jsonb FROM room ON CONFLICT DO NOTHING;
