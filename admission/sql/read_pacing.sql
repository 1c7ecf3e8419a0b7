-- What the last leader knew of no-shows and back-pressure. $1 room, $2 epoch. Answers pacing (JSON), or null before any.
SELECT pacing FROM line.progress WHERE room = $1 AND epoch = $2;
