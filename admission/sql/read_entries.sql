-- The entries from $3 to $4 that have leaves. $1 room, $2 epoch. Answers entry, client_id, in order.
-- Safe under races: one statement, one snapshot; keep_chunk.sql refuses what a restored entry has overtaken.
SELECT entry, client_id FROM line.entries
WHERE room = $1 AND epoch = $2 AND entry BETWEEN $3 AND $4 AND NOT late
ORDER BY entry;
