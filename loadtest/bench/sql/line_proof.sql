-- What a room's line recorded in its present epoch.
-- $1 room. Answers claims, the different places and passes among them, and the highest number that may be issued.
-- Reads only: one statement, one snapshot.
SELECT
    (SELECT number_limit FROM line.progress AS progress WHERE progress.room = room.name AND progress.epoch = room.epoch),
    count(claim.ticket_id) AS claims, count(DISTINCT claim.place) AS places, count(DISTINCT claim.jti) AS jtis
FROM line.rooms AS room
LEFT JOIN line.claims AS claim ON claim.room = room.name AND claim.epoch = room.epoch
WHERE room.name = $1
GROUP BY room.name, room.epoch;
