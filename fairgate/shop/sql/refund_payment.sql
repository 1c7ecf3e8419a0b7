-- Give the money back for a hold that the stock refused to confirm.
-- Parameters: :hold. No answer.
-- Safe under races: only a paid payment moves; doing it twice is one refund.
UPDATE payments SET state = 'refunded', ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE hold = :hold AND state = 'paid'
