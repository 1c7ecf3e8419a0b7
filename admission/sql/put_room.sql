-- Create a room or change its settings.
-- $1 name; $2 … $15 title, method, prequeue_at, opens_at, closes_at, rate_per_minute, active_max, turn_seconds,
-- pass_seconds, paused, message, queue_status_code, entries_max, skus.
-- Answers the row's epoch, or no row when the method would change, or after opening prequeue_at or opens_at.
-- Safe under races: one upsert; its row lock orders two operators, and the condition is judged on the locked row by the
-- database's clock. The same settings again leave changed_at alone.
INSERT INTO line.rooms AS room (
    name, title, method, prequeue_at, opens_at, closes_at, rate_per_minute, active_max, turn_seconds, pass_seconds,
    paused, message, queue_status_code, entries_max, skus
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (name) DO UPDATE
    SET title = $2, method = $3, prequeue_at = $4, opens_at = $5, closes_at = $6, rate_per_minute = $7, active_max = $8,
        turn_seconds = $9, pass_seconds = $10, paused = $11, message = $12, queue_status_code = $13, entries_max = $14,
        skus = $15,
        changed_at = CASE
            WHEN (room.title, room.method, room.prequeue_at, room.opens_at, room.closes_at, room.rate_per_minute,
                  room.active_max, room.turn_seconds, room.pass_seconds, room.paused, room.message,
                  room.queue_status_code, room.entries_max, room.skus)
                IS NOT DISTINCT FROM ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
            THEN room.changed_at ELSE clock_timestamp() END
    WHERE room.method = $3
      AND (room.opens_at > clock_timestamp() OR (room.prequeue_at, room.opens_at) IS NOT DISTINCT FROM ($4, $5))
RETURNING epoch;
