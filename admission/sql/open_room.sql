-- Begin a room's epoch: its progress, and its draw's secret before anybody can join.
-- $1 room, $2 epoch, $3 the draw's sealed secret, $4 its commitment, $5 how places are given (draw or fifo). Answers nothing; a repeat keeps the first.
-- Safe under races: primary keys let one leader's values win, and everybody reads them from here.
WITH progress AS (
    INSERT INTO line.progress (room, epoch, ordered_by) VALUES ($1, $2, $5) ON CONFLICT DO NOTHING
)
INSERT INTO line.draws (room, epoch, sealed_secret, commitment) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;
