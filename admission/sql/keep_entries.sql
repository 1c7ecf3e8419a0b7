-- Keep entries that Redis has issued.
-- $1 room, $2 epoch, $3 entries, $4 the client_id of each. Answers nothing; each entry is kept once, a repeat changes nothing.
-- Safe under races: one row an entry; entries arrive in their order, so all below the last one kept are kept, or gaps.
INSERT INTO line.entries (room, epoch, entry, client_id)
SELECT $1, $2, entry, client_id FROM unnest($3::bigint[], $4::bytea[]) AS issued (entry, client_id)
ON CONFLICT DO NOTHING;
