-- Redeem a one-time code: the place goes on with another device, and the one that made the code no longer counts.
-- $1 room, $2 epoch, $3 the code's hash, $4 client_id of the other device.
-- Answers the ticket's own words as they were before, and outcome: 'moved'; 'repeated' for the device that redeemed it
-- before; 'own' for a device that holds or held the place (nothing happens). No row for a code that is unknown, used by
-- another device, expired or replaced, and where the place was revoked meanwhile.
-- Safe under races: the code's row is locked and judged before anything is written, in one statement: of two devices that
-- redeem at once the second finds it used. A repeat writes nothing.
WITH known AS (
    SELECT recovery.ticket_id, recovery.client_id, recovery.ticket, recovery.used_by
    FROM line.recoveries AS recovery
    WHERE recovery.room = $1 AND recovery.epoch = $2 AND recovery.code_hash = $3
        AND recovery.expires_at > clock_timestamp() AND coalesce(recovery.used_by = $4, true)
        AND NOT EXISTS (
            SELECT FROM line.revoked_tickets AS revoked
            WHERE revoked.room = $1 AND revoked.epoch = $2 AND (
                (revoked.kind = 'device' AND revoked.subject = recovery.client_id AND recovery.used_by IS NULL)
                OR (revoked.kind = 'ticket' AND revoked.subject = recovery.ticket_id)
            )
        )
    FOR UPDATE
), judged AS (
    SELECT ticket_id, client_id, ticket, CASE
        WHEN client_id = $4 OR EXISTS (
            SELECT FROM line.revoked_tickets AS revoked
            WHERE revoked.room = $1 AND revoked.epoch = $2 AND revoked.kind = 'device' AND revoked.subject = $4
        ) THEN 'own'
        WHEN used_by IS NULL THEN 'moved'
        ELSE 'repeated'
    END AS outcome
    FROM known
), used AS (
    UPDATE line.recoveries AS recovery
    SET used_by = $4
    FROM judged
    WHERE judged.outcome = 'moved' AND recovery.room = $1 AND recovery.epoch = $2 AND recovery.ticket_id = judged.ticket_id
), moved AS (
    INSERT INTO line.revoked_tickets (room, epoch, kind, subject, reason)
    SELECT $1, $2, 'device', judged.client_id, 'moved' FROM judged WHERE judged.outcome = 'moved'
    ON CONFLICT DO NOTHING
)
SELECT ticket, outcome FROM judged;
