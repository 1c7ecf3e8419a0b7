-- Keep a draw's commitment for good: its pre-queue had begun, so people may have entered, known to Postgres or not yet.
-- $1 room, $2 epoch. Answers nothing.
-- Safe under races: lock_room.sql keeps other operators off; no room gets back to a draft but by an operator's change.
UPDATE line.draws SET kept_from = coalesce(kept_from, clock_timestamp()) WHERE room = $1 AND epoch = $2;
