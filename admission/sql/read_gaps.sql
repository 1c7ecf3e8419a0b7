-- The gaps of all rooms' current epochs, in order.
-- No parameters. Answers room, kind, first, last.
-- Safe under races: one statement, one snapshot; gaps are only ever added.
SELECT gap.room, gap.kind, gap.first, gap.last
FROM line.gaps AS gap
JOIN line.rooms AS room ON room.name = gap.room AND room.epoch = gap.epoch
ORDER BY gap.room, gap.kind, gap.first;
