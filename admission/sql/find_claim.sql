-- Whether a ticket was ever admitted. $1 room, $2 epoch, $3 ticket id.
-- Answers issued_at, expires_at (Unix seconds) and whether its pass was revoked, or no row.
SELECT claim.issued_at, claim.expires_at, revoked.jti IS NOT NULL AS revoked
FROM line.claims AS claim
LEFT JOIN line.revocations AS revoked ON revoked.jti = claim.jti
WHERE claim.room = $1 AND claim.epoch = $2 AND claim.ticket_id = $3
ORDER BY claim.turn DESC LIMIT 1;
