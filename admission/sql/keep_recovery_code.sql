-- Keep a one-time code to go on from another device.
-- $1 room, $2 epoch, $3 ticket id, $4 client_id of the device that asks, $5 the code's hash, $6 the ticket's own words,
-- $7 seconds for which the code counts.
-- Answers expires_at, or no row where the place has moved away from that device or was revoked.
-- Safe under races: one row for each place, so a second code takes the first one's row. A place that moves while this
-- waits for that row leaves a code here that redeem_recovery_code.sql refuses.
INSERT INTO line.recoveries (room, epoch, ticket_id, client_id, code_hash, ticket, expires_at)
SELECT $1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7)
WHERE NOT EXISTS (
    SELECT FROM line.revoked_tickets AS revoked
    WHERE revoked.room = $1 AND revoked.epoch = $2
        AND (revoked.kind, revoked.subject) IN (('device', $4), ('ticket', $3))
)
ON CONFLICT (room, epoch, ticket_id) DO UPDATE
    SET client_id = EXCLUDED.client_id, code_hash = EXCLUDED.code_hash, ticket = EXCLUDED.ticket,
        expires_at = EXCLUDED.expires_at, used_by = NULL
RETURNING expires_at;
