-- The roots of all chunks of a draw's leaves. $1 room, $2 epoch. Answers root, in order of the chunks.
-- Safe under races: they stand for good once the draw's root does.
SELECT root FROM line.leaf_chunks WHERE room = $1 AND epoch = $2 ORDER BY chunk;
