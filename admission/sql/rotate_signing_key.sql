-- Publish a purpose's next key, which signs from a moment to come.
-- $1 kid, $2 purpose, $3 public key (null for tickets), $4 sealed private key, $5 seconds until it signs.
-- Answers true, or no row where a next key waits already.
-- Safe under races: one_next_key_for_each_purpose lets one caller win; the others find its key.
INSERT INTO line.signing_keys (kid, purpose, public_key, sealed_private, state, activates_at)
VALUES ($1, $2, $3, $4, 'next', clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (purpose) WHERE state = 'next' DO NOTHING
RETURNING true;
