-- Whose pass it is. $1 room, $2 epoch, $3 jti. Answers the ticket id, or no row for a pass that was not given out.
SELECT ticket_id FROM line.claims WHERE room = $1 AND epoch = $2 AND jti = $3;
