-- Revoked passes since an earlier reading.
-- $1 the horizon that the earlier reading answered ('0' for the first).
-- Answers at least one row: horizon for the next reading, and jti, expires_at (Unix seconds) of each unexpired
-- revocation that the earlier reading may not have seen; jti is null where there is none.
-- Safe under races: rows carry their transaction's id, and the horizon is the oldest transaction still running at this
-- snapshot, so that one committing late is read by the next call. A horizon from another database (a restore) reads all.
WITH snapshot AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon)
SELECT snapshot.horizon::text AS horizon, revoked.jti, revoked.expires_at
FROM snapshot
LEFT JOIN line.revocations AS revoked
    ON revoked.expires_at > extract(epoch FROM clock_timestamp())
    AND (revoked.written_by >= $1::text::xid8 OR snapshot.horizon < $1::text::xid8);
