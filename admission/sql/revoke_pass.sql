-- Revoke a pass before its time.
-- $1 room, $2 jti, $3 expires_at (Unix seconds) of the longest pass that may carry it. Answers nothing; revoking twice is
-- revoking once, until the later of both.
-- Safe under races: one row a jti; verifiers read it by its transaction's id, so that none misses it or its longer life.
INSERT INTO line.revocations AS revoked (room, jti, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (jti) DO UPDATE SET expires_at = EXCLUDED.expires_at, written_by = EXCLUDED.written_by
    WHERE revoked.expires_at < EXCLUDED.expires_at;
