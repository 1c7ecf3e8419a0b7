-- All signing keys for operators, newest first, without anything secret.
-- $1 a kid, or null for all. Answers kid, purpose, state, created_at, activates_at, retired_at, revoked_at.
-- Safe under races: one statement, one snapshot.
SELECT kid, purpose, state, created_at, activates_at, retired_at, revoked_at
FROM line.signing_keys
WHERE $1::text IS NULL OR kid = $1
ORDER BY created_at DESC, kid;
