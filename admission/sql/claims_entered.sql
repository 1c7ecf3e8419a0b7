-- Note that Redis has heard of claims.
-- $1 room, $2 epoch, $3 ticket ids. Answers nothing.
-- Safe under races: a Redis that forgets them again is restored from all claims, entered or not.
UPDATE line.claims SET to_enter = false WHERE room = $1 AND epoch = $2 AND ticket_id = ANY($3::text[]) AND to_enter;
