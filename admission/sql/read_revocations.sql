-- Passes that are refused before their time, since an earlier reading.
-- $1 the horizon that the earlier reading answered ('0' for the first).
-- Answers at least one row: horizon for the next reading, and of each refusal that the earlier reading may not have seen room,
-- written_by (the transaction, as text), and either jti and expires_at (Unix seconds) of an unexpired pass, or identity and
-- epoch; room is null where there is none.
-- Safe under races: rows carry their transaction's id, and the horizon is the oldest transaction still running at this
-- snapshot, so that one committing late is read by the next call. A horizon from another database (a restore) reads all.
WITH snapshot AS (
    SELECT horizon, CASE WHEN horizon < $1::text::xid8 THEN '0'::xid8 ELSE $1::text::xid8 END AS since
    FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon) AS present
)
SELECT snapshot.horizon::text AS horizon, refused.*
FROM snapshot
LEFT JOIN LATERAL (
    SELECT revoked.room, revoked.written_by::text AS written_by, revoked.jti, revoked.expires_at, NULL AS identity, NULL AS epoch
    FROM line.revocations AS revoked
    WHERE revoked.written_by >= snapshot.since AND revoked.expires_at > extract(epoch FROM clock_timestamp())
    UNION ALL
    SELECT revoked.room, revoked.written_by::text, NULL, NULL, revoked.subject, revoked.epoch
    FROM line.revoked_tickets AS revoked
    JOIN line.rooms AS room ON room.name = revoked.room AND room.epoch = revoked.epoch
    WHERE revoked.written_by >= snapshot.since AND revoked.kind = 'identity'
) AS refused ON true;
