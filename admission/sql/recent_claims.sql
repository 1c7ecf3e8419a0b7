-- The claims that a new Redis must know: active ones, and those that ended less than an hour ago.
-- $1 room, $2 epoch. Answers ticket_id, place, issued_at, expires_at, state ('active', or 'left' when its pass was revoked).
-- Safe under races: one statement, one snapshot.
SELECT
    claim.ticket_id, claim.place, claim.issued_at, claim.expires_at,
    CASE WHEN revoked.jti IS NULL THEN 'active' ELSE 'left' END AS state
FROM line.claims AS claim
LEFT JOIN line.revocations AS revoked ON revoked.jti = claim.jti
WHERE claim.room = $1 AND claim.epoch = $2 AND claim.expires_at > extract(epoch FROM clock_timestamp()) - 3600;
