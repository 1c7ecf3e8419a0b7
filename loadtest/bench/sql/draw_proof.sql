-- How far a room's draw has come in its first epoch.
-- $1 room. Answers chunks of leaves kept, entries drawn (null before), the seconds from the close of entries to the order.
-- Reads only: one statement, one snapshot.
SELECT
    (SELECT count(*) FROM line.leaf_chunks AS chunk WHERE chunk.room = draw.room AND chunk.epoch = draw.epoch) AS chunks,
    draw.entries, extract(epoch FROM draw.closed_at - draw.entries_closed_at)::float8 AS seconds
FROM line.draws AS draw WHERE draw.room = $1 AND draw.epoch = 1;
