-- The claims that Redis has not heard of: granted while it was away, or come late.
-- $1 room, $2 epoch, $3 how many at most. Answers ticket_id, place, issued_at, expires_at, state ('active', or 'left' when its
-- pass was revoked).
-- Safe under races: one statement, one snapshot; entering a claim twice is entering it once.
SELECT
    claim.ticket_id, claim.place, claim.issued_at, claim.expires_at,
    CASE WHEN revoked.jti IS NULL THEN 'active' ELSE 'left' END AS state
FROM line.claims AS claim
LEFT JOIN line.revocations AS revoked ON revoked.jti = claim.jti
WHERE claim.room = $1 AND claim.epoch = $2 AND claim.to_enter
ORDER BY claim.ticket_id
LIMIT $3;
