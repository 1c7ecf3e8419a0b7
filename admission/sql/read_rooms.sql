-- Rooms with all that a worker must know to serve them.
-- $1 a room's name, or null for all.
-- Answers one row a room: name, epoch, settings (a JSON object by column); generation and redis_identity (null before the
-- first leader has seen it), ordered_by, opened_at; entry_limit, number_limit, called, over, admitted_away; the draw's stages
-- as read_draw.sql has them.
-- Safe under races: one statement, one snapshot.
SELECT
    room.name, room.epoch, to_jsonb(room.*) AS settings,
    progress.generation, progress.redis_identity, progress.ordered_by, progress.opened_at, progress.entry_limit,
    progress.number_limit, progress.called, progress.over, progress.admitted_away,
    draw.commitment, draw.committed_at, draw.prequeue_at, draw.beacon, draw.last_entry, draw.entries_closed_at,
    draw.root, draw.root_at, draw.beacon_value, draw.beacon_at, draw.beacon_missed, draw.entries, draw.secret, draw.closed_at
FROM line.rooms AS room
LEFT JOIN line.progress AS progress ON progress.room = room.name AND progress.epoch = room.epoch
LEFT JOIN line.draws AS draw ON draw.room = room.name AND draw.epoch = room.epoch
WHERE $1::text IS NULL OR room.name = $1
ORDER BY room.name;
