-- Begin a new generation of a room's line, for a Redis that may have forgotten.
-- $1 room, $2 epoch, $3 the leader's term, $4 that Redis's identity, $5 the generation it holds, $6 entries and
-- $7 numbers it says were issued, $8 how many more of each may be issued at once.
-- Answers generation, entries, numbers (where issuing resumes), entry_limit, number_limit, called, over,
-- clock_ms, ordered_by, entries_closed; no row for a leader whose term has passed.
-- Safe under races: the row lock orders leaders and whoever raises a limit, and each judges the locked rows. Issuing
-- resumes at the old limit, which nothing ever passed; what lies between the last that is known and that limit becomes a
-- gap. What stands in line.entries is known. No entry gap is added once the draw's entries are closed. A repeat after a crash
-- finds nothing left to pass over.
WITH before AS (
    SELECT * FROM line.progress WHERE room = $1 AND epoch = $2 AND term <= $3 FOR UPDATE
), stands AS (
    SELECT draw.last_entry FROM before
    JOIN line.draws AS draw ON draw.room = before.room AND draw.epoch = before.epoch
    FOR SHARE OF draw
), draw AS (
    SELECT last_entry FROM stands WHERE last_entry IS NOT NULL
), passed_over AS (
    INSERT INTO line.gaps (room, epoch, kind, first, last)
    SELECT room, epoch, kind, known + 1, limit_reached
    FROM (
        SELECT
            room, epoch, 'entry' AS kind,
            greatest(entries_known, $6, (SELECT max(entry) FROM line.entries WHERE room = $1 AND epoch = $2)) AS known,
            entry_limit AS limit_reached
        FROM before
        WHERE NOT EXISTS (SELECT FROM draw)
        UNION ALL
        SELECT room, epoch, 'number', greatest(numbers_known, $7), number_limit FROM before
    ) AS issued
    WHERE known < limit_reached
)
UPDATE line.progress AS progress
SET generation     = greatest(before.generation, $5) + 1,
    redis_identity = $4,
    term           = $3,
    entries_known  = before.entry_limit,
    numbers_known  = before.number_limit,
    entry_limit    = before.entry_limit + $8,
    number_limit   = before.number_limit + $8
FROM before
WHERE progress.room = before.room AND progress.epoch = before.epoch
RETURNING progress.generation, coalesce((SELECT last_entry FROM draw), before.entry_limit) AS entries,
    EXISTS (SELECT FROM draw) AS entries_closed, before.number_limit AS numbers, progress.entry_limit,
    progress.number_limit, progress.called, progress.over, progress.clock_ms, progress.ordered_by;
