-- Whether a ticket was ever admitted. $1 room, $2 epoch, $3 ticket id. Answers expires_at (Unix seconds) or no row.
SELECT expires_at FROM line.claims WHERE room = $1 AND epoch = $2 AND ticket_id = $3 ORDER BY turn DESC LIMIT 1;
