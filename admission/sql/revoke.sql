-- Revoke a pass, a ticket or an identity of a room's present epoch, for good.
-- $1 room, $2 epoch, $3 kind, $4 subject, $5 whose slot is freed (a ticket id or null), $6 reason, $7 the jti that verifiers
-- must refuse (or null), $8 for how many seconds a pass with it may still be about.
-- Answers whether it is new; revoking twice is revoking once, with the first reason.
-- Safe under races: one row a subject, one a jti; readers find both by their transaction's id, so that none misses them.
WITH noted AS (
    INSERT INTO line.revoked_tickets (room, epoch, kind, subject, ticket_id, reason) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT DO NOTHING
    RETURNING true
), ended AS (
    INSERT INTO line.revocations AS revoked (room, jti, expires_at)
    SELECT $1, $7::text, ceil(extract(epoch FROM clock_timestamp()))::bigint + $8::bigint WHERE $7::text IS NOT NULL
    ON CONFLICT (jti) DO UPDATE SET expires_at = EXCLUDED.expires_at, written_by = EXCLUDED.written_by
        WHERE revoked.expires_at < EXCLUDED.expires_at
)
SELECT EXISTS (SELECT FROM noted);
