-- Keep who was admitted, and until when, many at once.
-- $1 room, $2 epoch; $3 … $7 arrays of one length: ticket ids, places (0 in a renewal, behind its claim), jtis, issued_at,
-- expires_at.
-- Answers nothing. Safe under races: a claim is kept once, with the latest expiry said while its pass lived; repeats change nothing,
-- nor does a claim that a forgetful Redis granted once more to a ticket whose pass was over.
INSERT INTO line.claims AS kept (room, epoch, ticket_id, turn, place, jti, issued_at, expires_at)
SELECT $1, $2, claim.ticket_id, 1, max(claim.place), min(claim.jti), min(claim.issued_at), max(claim.expires_at)
FROM unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
    AS claim (ticket_id, place, jti, issued_at, expires_at)
GROUP BY claim.ticket_id
ON CONFLICT (room, epoch, ticket_id, turn) DO UPDATE SET expires_at = EXCLUDED.expires_at
    WHERE kept.expires_at < EXCLUDED.expires_at AND kept.expires_at > EXCLUDED.issued_at;
