-- The signing keys.
-- No parameters. Answers kid, purpose, state, sealed_private (null once revoked), and due: whether a next key's time to
-- sign has come, by the database's clock.
-- Safe under races: one statement, one snapshot.
SELECT
    kid, purpose, state,
    CASE WHEN state <> 'revoked' THEN sealed_private END AS sealed_private,
    state = 'next' AND activates_at <= clock_timestamp() AS due
FROM line.signing_keys
ORDER BY created_at, kid;
