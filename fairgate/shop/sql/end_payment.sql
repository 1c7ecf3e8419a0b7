-- End a pending payment as paid, declined or cancelled.
-- Parameters: :hold, :state. No answer; find_payment tells which end came first.
-- Safe under races: only a pending payment moves, so whoever comes second changes nothing.
UPDATE payments SET state = :state, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE hold = :hold AND state = 'pending'
