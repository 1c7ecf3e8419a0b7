-- Restore an entry from its ticket, before the entries close: its gap is split and its leaf is in the tree.
-- $1 room, $2 epoch, $3 entry, $4 the ticket's first client_id. Answers true, or no row where the entry is in no gap.
-- Safe under races: lock_draw.sql holds the draw's row, so nobody else splits the gap, keeps its chunk or closes the entries.
WITH gap AS (
    DELETE FROM line.gaps
    WHERE room = $1 AND epoch = $2 AND kind = 'entry' AND $3::bigint BETWEEN first AND last
    RETURNING room, epoch, kind, first, last
), kept AS (
    INSERT INTO line.entries (room, epoch, entry, client_id) SELECT room, epoch, $3, $4 FROM gap ON CONFLICT DO NOTHING
), parts AS (
    INSERT INTO line.gaps (room, epoch, kind, first, last)
    SELECT gap.room, gap.epoch, gap.kind, part.first, part.last
    FROM gap, LATERAL (VALUES (gap.first, $3::bigint - 1), ($3::bigint + 1, gap.last)) AS part (first, last)
    WHERE part.first <= part.last
), stale AS (
    DELETE FROM line.leaf_chunks AS chunk USING gap
    WHERE chunk.room = gap.room AND chunk.epoch = gap.epoch AND chunk.chunk = ($3::bigint - 1) / 1024
)
UPDATE line.draws AS draw SET leaves_restored = leaves_restored + 1
FROM gap WHERE draw.room = gap.room AND draw.epoch = gap.epoch
RETURNING true;
