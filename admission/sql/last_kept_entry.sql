-- The last entry that is kept. $1 room, $2 epoch. Answers one value, 0 for none.
-- Safe under races: entries are only added, in their order but for restored ones, which fill gaps below.
SELECT coalesce(max(entry), 0) FROM line.entries WHERE room = $1 AND epoch = $2;
