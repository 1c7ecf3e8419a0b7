-- Revoke a pass before its time.
-- $1 room, $2 jti, $3 expires_at (Unix seconds). Answers nothing; revoking twice is revoking once.
-- Safe under races: one row a jti; verifiers read it by its transaction's id, so that none misses it.
INSERT INTO line.revocations (room, jti, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;
