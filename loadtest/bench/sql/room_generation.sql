-- The generation of a room's line in its first epoch; 0 or none before a leader has begun it. $1 room.
SELECT generation FROM line.progress WHERE room = $1 AND epoch = 1;
