-- Keep who was admitted, many at once.
-- $1 room, $2 epoch; $3 … $7 arrays of one length: ticket ids, places, jtis, issued_at, expires_at.
-- Answers nothing. Safe under races: a claim is kept once; repeats change nothing.
INSERT INTO line.claims (room, epoch, ticket_id, turn, place, jti, issued_at, expires_at)
SELECT $1, $2, claim.ticket_id, 1, claim.place, claim.jti, claim.issued_at, claim.expires_at
FROM unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
    AS claim (ticket_id, place, jti, issued_at, expires_at)
ON CONFLICT DO NOTHING;
