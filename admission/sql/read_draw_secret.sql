-- The sealed secret of a room's draw. $1 room, $2 epoch. Answers one value.
SELECT sealed_secret FROM line.draws WHERE room = $1 AND epoch = $2;
