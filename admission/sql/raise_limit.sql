-- Raise how many entries or numbers may be issued, before any of them is.
-- $1 room, $2 epoch, $3 generation, $4 the limit that was reached, $5 by how many, $6 'entry' or 'number'.
-- Answers entry_limit and number_limit, or no row where the generation has passed on.
-- Safe under races: the row lock orders callers, the generation is judged on the locked row, and only a caller who saw
-- the present limit raises it, so that a hundred workers at the limit raise it once.
UPDATE line.progress
SET entry_limit  = CASE WHEN $6 = 'entry' THEN greatest(entry_limit, $4::bigint + $5::bigint) ELSE entry_limit END,
    number_limit = CASE WHEN $6 = 'number' THEN greatest(number_limit, $4::bigint + $5::bigint) ELSE number_limit END
WHERE room = $1 AND epoch = $2 AND generation = $3
RETURNING entry_limit, number_limit;
