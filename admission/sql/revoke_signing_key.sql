-- End a key and everything that it signed.
-- $1 kid. Answers purpose and the state it was in, or no row where it is revoked already or unknown.
-- Safe under races: judged on the locked row; a repeat changes nothing.
WITH before AS (SELECT kid, purpose, state FROM line.signing_keys WHERE kid = $1 AND state <> 'revoked' FOR UPDATE)
UPDATE line.signing_keys AS key
SET state = 'revoked', revoked_at = clock_timestamp()
FROM before
WHERE key.kid = before.kid
RETURNING before.purpose, before.state;
