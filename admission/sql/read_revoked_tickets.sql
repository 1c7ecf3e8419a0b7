-- Tickets, devices, identities and passes that count no more in their rooms' present epochs, since an earlier reading.
-- $1 the horizon that the earlier reading answered ('0' for the first).
-- Answers at least one row: horizon for the next reading, and room, epoch, kind, subject, ticket_id, reason of each that the
-- earlier reading may not have seen; room is null where there is none.
-- Safe under races: as read_revocations.sql.
WITH snapshot AS (
    SELECT horizon, CASE WHEN horizon < $1::text::xid8 THEN '0'::xid8 ELSE $1::text::xid8 END AS since
    FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon) AS present
)
SELECT snapshot.horizon::text AS horizon, revoked.*
FROM snapshot
LEFT JOIN LATERAL (
    SELECT revoked.room, revoked.epoch, revoked.kind, revoked.subject, revoked.ticket_id, revoked.reason
    FROM line.revoked_tickets AS revoked
    JOIN line.rooms AS room ON room.name = revoked.room AND room.epoch = revoked.epoch
    WHERE revoked.written_by >= snapshot.since
) AS revoked ON true;
