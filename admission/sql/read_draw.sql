-- A draw with all that is public of it, also of an epoch that has ended.
-- $1 room, $2 epoch. Answers ordered_by; commitment, committed_at, prequeue_at, beacon, last_entry, entries_closed_at, root,
-- root_at, beacon_value, beacon_at, beacon_missed, entries, secret and closed_at; gap_first and gap_last, and restored, as
-- arrays in order; or no row.
-- Safe under races: one statement, one snapshot.
SELECT
    progress.ordered_by, draw.commitment, draw.committed_at, draw.prequeue_at, draw.beacon, draw.last_entry,
    draw.entries_closed_at, draw.root, draw.root_at, draw.beacon_value, draw.beacon_at, draw.beacon_missed, draw.entries,
    draw.secret, draw.closed_at,
    ARRAY(
        SELECT gap.first FROM line.gaps AS gap
        WHERE gap.room = $1 AND gap.epoch = $2 AND gap.kind = 'entry' ORDER BY gap.first
    ) AS gap_first,
    ARRAY(
        SELECT gap.last FROM line.gaps AS gap
        WHERE gap.room = $1 AND gap.epoch = $2 AND gap.kind = 'entry' ORDER BY gap.first
    ) AS gap_last,
    ARRAY(
        SELECT entry.entry FROM line.entries AS entry
        WHERE entry.room = $1 AND entry.epoch = $2 AND entry.late ORDER BY entry.entry
    ) AS restored
FROM line.draws AS draw
JOIN line.progress AS progress ON progress.room = draw.room AND progress.epoch = draw.epoch
WHERE draw.room = $1 AND draw.epoch = $2;
