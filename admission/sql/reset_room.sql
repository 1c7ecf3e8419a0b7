-- End a room's epoch and begin the next: its tickets, passes and places end, its proofs stay.
-- $1 name, $2 the epoch to end. Answers the epoch that ended, or no row where the room is in another one.
-- Safe under races: lock_room.sql has locked the name; the room is a draft afterwards, so nobody enters by an old schedule.
UPDATE line.rooms SET epoch = epoch + 1, phase = 'draft', paused = false, changed_at = clock_timestamp()
WHERE name = $1 AND epoch = $2 RETURNING epoch - 1;
