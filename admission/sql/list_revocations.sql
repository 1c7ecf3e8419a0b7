-- What operators revoked in a room's present epoch, newest first.
-- $1 room, $2 one subject or null for all, $3 how many at most. Answers kind, subject, reason, at; devices that a place has moved away from are none.
SELECT revoked.kind, revoked.subject, revoked.reason, revoked.at
FROM line.revoked_tickets AS revoked
JOIN line.rooms AS room ON room.name = revoked.room AND room.epoch = revoked.epoch
WHERE revoked.room = $1 AND revoked.kind <> 'device' AND ($2::text IS NULL OR revoked.subject = $2)
ORDER BY revoked.at DESC, revoked.kind, revoked.subject
LIMIT $3;
