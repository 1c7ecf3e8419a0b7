-- Withdraw a draw's commitment, whose beacon an operator has changed: the leader commits anew, with a fresh secret.
-- $1 room, $2 epoch. Answers whether no commitment stands now; false once anybody has entered, or may have: it stays.
-- Safe under races: lock_room.sql keeps other operators off, and the caller has changed the room's row in this transaction:
-- open_room.sql waits for it and then sees the new beacon. The caller takes its change back when this answers false.
WITH withdrawn AS (
    DELETE FROM line.draws AS draw
    WHERE room = $1 AND epoch = $2 AND entries_closed_at IS NULL AND kept_from IS NULL
      AND NOT EXISTS (SELECT FROM line.entries AS entry WHERE entry.room = draw.room AND entry.epoch = draw.epoch)
      AND NOT EXISTS (SELECT FROM line.gaps AS gap WHERE gap.room = draw.room AND gap.epoch = draw.epoch AND kind = 'entry')
    RETURNING room
)
SELECT EXISTS (SELECT FROM withdrawn) OR NOT EXISTS (SELECT FROM line.draws WHERE room = $1 AND epoch = $2);
