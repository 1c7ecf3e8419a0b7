-- Make a key the current one for its purpose, if there is none.
-- $1 kid, $2 purpose, $3 public key (null for tickets), $4 sealed private key. Answers nothing.
-- Safe under races: one_current_key_for_each_purpose lets one process win; the others read its key afterwards.
INSERT INTO line.signing_keys (kid, purpose, public_key, sealed_private) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;
