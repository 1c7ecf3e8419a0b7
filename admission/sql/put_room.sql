-- Write a room's settings.
-- $1 name, $2 the settings as a JSON object with every column's name. Answers the row's epoch.
-- Safe under races: lock_room.sql has locked the room's name for this transaction, and the caller has judged what it read under that lock.
INSERT INTO line.rooms AS room (
    name, title, method, phase, prequeue_at, opens_at, closes_at, rate_per_minute, active_max, turn_seconds, grace_seconds,
    extensions_max, pass_seconds, renew, paused, message, queue_status_code, entries_max, standby_above_per_minute, away_policy,
    rate_min_per_minute, stock_latency_ms_max, beacon, skus
)
SELECT
    $1, title, method, phase, prequeue_at, opens_at, closes_at, rate_per_minute, active_max, turn_seconds, grace_seconds,
    extensions_max, pass_seconds, renew, paused, message, queue_status_code, entries_max, standby_above_per_minute, away_policy,
    rate_min_per_minute, stock_latency_ms_max, beacon, skus
FROM jsonb_populate_record(NULL::line.rooms, $2::jsonb)
ON CONFLICT (name) DO UPDATE
    SET title = EXCLUDED.title, method = EXCLUDED.method, phase = EXCLUDED.phase, prequeue_at = EXCLUDED.prequeue_at,
        opens_at = EXCLUDED.opens_at, closes_at = EXCLUDED.closes_at, rate_per_minute = EXCLUDED.rate_per_minute,
        active_max = EXCLUDED.active_max, turn_seconds = EXCLUDED.turn_seconds, grace_seconds = EXCLUDED.grace_seconds,
        extensions_max = EXCLUDED.extensions_max, pass_seconds = EXCLUDED.pass_seconds, renew = EXCLUDED.renew,
        paused = EXCLUDED.paused, message = EXCLUDED.message, queue_status_code = EXCLUDED.queue_status_code,
        entries_max = EXCLUDED.entries_max, standby_above_per_minute = EXCLUDED.standby_above_per_minute,
        away_policy = EXCLUDED.away_policy, rate_min_per_minute = EXCLUDED.rate_min_per_minute,
        stock_latency_ms_max = EXCLUDED.stock_latency_ms_max, beacon = EXCLUDED.beacon, skus = EXCLUDED.skus,
        changed_at = clock_timestamp()
RETURNING epoch;
