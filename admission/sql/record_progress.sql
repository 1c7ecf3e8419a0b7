-- Record how far a line has come and may come, before Redis acts on it.
-- $1 room, $2 epoch, $3 generation, $4 the leader's term, $5 the entry up to which all are kept, $6 numbers issued,
-- $7 called, $8 over, $9 the turn clock in ms, $10 whether the room is open; $11 base, $12 call rate, $13 since and $14 valid until (Unix ms) of the
-- segment that ends at $7; $15 what is known of no-shows and back-pressure (JSON), from which another leader starts.
-- Answers true, or no row for a leader whose term or generation has passed.
-- Safe under races: judged on the locked row; nothing recorded ever goes back.
WITH recorded AS (
    UPDATE line.progress
    SET term = $4,
        entries_known = greatest(entries_known, $5),
        numbers_known = greatest(numbers_known, $6),
        called = greatest(called, $7),
        over = greatest(over, $8),
        clock_ms = greatest(clock_ms, $9),
        base = $11,
        call_rate = $12,
        since_ms = $13,
        valid_until_ms = $14,
        pacing = $15::jsonb,
        opened_at = CASE WHEN $10 THEN coalesce(opened_at, clock_timestamp()) ELSE opened_at END
    WHERE room = $1 AND epoch = $2 AND generation = $3 AND term <= $4
    RETURNING room, epoch
), noted AS (
    INSERT INTO line.calls (room, epoch, called, clock_ms)
    SELECT room, epoch, $7, $9 FROM recorded WHERE $7 > 0
    ON CONFLICT DO NOTHING
)
SELECT true FROM recorded;
