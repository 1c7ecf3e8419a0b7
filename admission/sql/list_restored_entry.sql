-- List an entry whose ticket turned up after the close: it has no leaf, and its ticket keeps its place.
-- $1 room, $2 epoch, $3 entry, $4 the ticket's first client_id. Answers nothing; a repeat changes nothing.
-- Safe under races: one row an entry; a late one changes neither tree nor order.
INSERT INTO line.entries (room, epoch, entry, client_id, late)
SELECT room, epoch, $3, $4, true FROM line.gaps
WHERE room = $1 AND epoch = $2 AND kind = 'entry' AND $3::bigint BETWEEN first AND last
ON CONFLICT DO NOTHING;
