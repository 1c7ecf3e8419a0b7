-- The public keys that passes may be signed with.
-- No parameters. Answers kid, public_key (raw Ed25519, 32 bytes) of every key that is not revoked: a retired key
-- signs nothing new but what it signed still verifies.
-- Safe under races: one statement, one snapshot.
SELECT kid, public_key FROM line.signing_keys WHERE purpose = 'pass' AND state <> 'revoked' ORDER BY kid;
