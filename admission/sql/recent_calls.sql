-- When the places whose turns are open were called.
-- $1 room, $2 epoch. Answers called, clock_ms, in order.
-- Safe under races: one statement, one snapshot.
SELECT call.called, call.clock_ms
FROM line.calls AS call
JOIN line.progress AS progress ON progress.room = call.room AND progress.epoch = call.epoch
WHERE call.room = $1 AND call.epoch = $2 AND call.called > progress.over
ORDER BY call.called;
