-- The leaves of one chunk. $1 room, $2 epoch, $3 chunk. Answers one value, or no row.
-- Safe under races: they stand for good once the draw's root does.
SELECT leaves FROM line.leaf_chunks WHERE room = $1 AND epoch = $2 AND chunk = $3;
