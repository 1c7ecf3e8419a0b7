-- The signing keys that still count.
-- No parameters. Answers kid, purpose, state, sealed_private of every key that is not revoked.
-- Safe under races: one statement, one snapshot.
SELECT kid, purpose, state, sealed_private FROM line.signing_keys WHERE state <> 'revoked' ORDER BY created_at, kid;
