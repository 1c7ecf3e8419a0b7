-- The public keys that passes may be signed with.
-- No parameters. Answers kid, public_key (raw Ed25519, 32 bytes) and revoked of every pass key: a next one signs soon,
-- what a retired one signed still verifies, what a revoked one signed never does.
-- Safe under races: one statement, one snapshot.
SELECT kid, public_key, state = 'revoked' AS revoked FROM line.signing_keys WHERE purpose = 'pass' ORDER BY kid;
