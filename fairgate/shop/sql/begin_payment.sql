-- Begin to take the payment for a hold. Repeating it changes nothing: the first call's card counts.
-- Parameters: :hold, :buyer, :key, :card. No answer; find_payment tells whose row it is.
-- Safe under races: PRIMARY KEY (hold) lets one payment exist for a hold, a_key_pays_once one hold for a key.
INSERT INTO payments (hold, buyer, key, card, state) VALUES (:hold, :buyer, :key, :card, 'pending')
ON CONFLICT DO NOTHING
