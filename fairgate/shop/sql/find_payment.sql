-- How the payment for a hold stands.
-- Parameters: :hold. Answer: buyer, key, card, state; no row when nobody tried to pay.
-- Safe under races: one read.
SELECT buyer, key, card, state FROM payments WHERE hold = :hold
