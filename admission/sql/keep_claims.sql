-- Keep claims before their passes are handed out.
-- $1 room, $2 epoch, $3 the generation under which they were granted, or null for those that come late, $4 whether they were
-- granted while Redis was away; $5 … $9 arrays of one length, each ticket once: ticket ids, places, jtis, issued_at, expires_at.
-- Answers ticket_id, issued_at, expires_at as kept, and ended, for each; no row where another generation has begun. `ended`: this
-- ticket was used before, and its pass was over or revoked when the claim was granted by a Redis that had forgotten it.
-- Safe under races: begin_generation.sql locks the progress row against this one's share of it, so that a claim either
-- stands before a new generation reads them all, or is refused. A claim is kept once; what Redis has lengthened counts.
WITH fence AS MATERIALIZED (
    SELECT room, epoch FROM line.progress
    WHERE room = $1 AND epoch = $2 AND ($3::bigint IS NULL OR generation = $3)
    FOR KEY SHARE
), claim AS (
    SELECT ticket_id, place, jti, issued_at, expires_at, EXISTS (
        SELECT FROM line.revocations AS revoked WHERE revoked.jti = claim.jti
    ) AS revoked
    FROM unnest($5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[])
        AS claim (ticket_id, place, jti, issued_at, expires_at)
), kept AS (
    INSERT INTO line.claims AS kept (room, epoch, ticket_id, turn, place, jti, issued_at, expires_at, away, to_enter)
    SELECT fence.room, fence.epoch, claim.ticket_id, 1, claim.place, claim.jti, claim.issued_at, claim.expires_at,
        $4, $4 OR $3 IS NULL
    FROM fence, claim
    ORDER BY claim.ticket_id
    ON CONFLICT (room, epoch, ticket_id, turn) DO UPDATE
        SET expires_at = CASE WHEN $4 OR kept.expires_at <= EXCLUDED.issued_at
            THEN kept.expires_at ELSE greatest(kept.expires_at, EXCLUDED.expires_at) END
    RETURNING kept.ticket_id, kept.issued_at, kept.expires_at, kept.xmax = 0 AS fresh
), counted AS (
    UPDATE line.progress
    SET admitted_away = admitted_away + (SELECT count(*) FROM kept WHERE fresh)
    WHERE room = $1 AND epoch = $2 AND $4 AND EXISTS (SELECT FROM kept WHERE fresh)
)
SELECT kept.ticket_id, kept.issued_at, kept.expires_at, claim.revoked OR kept.expires_at <= claim.issued_at AS ended
FROM kept JOIN claim USING (ticket_id);
