-- Keep a chunk of leaves and its root.
-- $1 room, $2 epoch, $3 chunk, $4 its leaves, $5 their root, $6 the leaves_restored from before its entries were read.
-- Answers nothing; nothing happens where a leaf was restored meanwhile, and the chunk is worked out again.
-- Safe under races: the draw's row is locked against restore_entry.sql, and the count is judged on the locked row.
INSERT INTO line.leaf_chunks (room, epoch, chunk, leaves, root)
SELECT room, epoch, $3, $4, $5 FROM (
    SELECT room, epoch FROM line.draws WHERE room = $1 AND epoch = $2 AND leaves_restored = $6 FOR SHARE
) AS draw
ON CONFLICT DO NOTHING;
