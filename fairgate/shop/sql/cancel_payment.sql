-- Make sure that a hold is not paid from now on, unless it was already.
-- Parameters: :hold. No answer; find_payment tells the end.
-- Safe under races: a payment that was never begun gets a cancelled row, so that begin_payment finds it and stops.
INSERT INTO payments (hold, buyer, key, card, state, ended_at)
VALUES (:hold, '', :hold, '', 'cancelled', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ON CONFLICT (hold) DO UPDATE SET state = 'cancelled', ended_at = excluded.ended_at WHERE state = 'pending'
