-- Which chunks of leaves are not kept yet.
-- $1 room, $2 epoch, $3 the first chunk to look at, $4 how many chunks there are, $5 how many to name at most.
-- Answers chunk and leaves_restored (which keep_chunk.sql wants to see unchanged), in order.
-- Safe under races: one statement, one snapshot.
SELECT chunk, draw.leaves_restored
FROM line.draws AS draw, generate_series($3::bigint, $4::bigint - 1) AS chunk
WHERE draw.room = $1 AND draw.epoch = $2
  AND NOT EXISTS (
      SELECT FROM line.leaf_chunks AS kept WHERE kept.room = $1 AND kept.epoch = $2 AND kept.chunk = chunk.chunk
  )
ORDER BY chunk LIMIT $5;
