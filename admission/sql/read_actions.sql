-- What operators did, newest first.
-- $1 a room or null for all, $2 only ids below this or null, $3 how many at most. Answers id, at, actor, action, room, detail.
SELECT id, at, actor, action, room, detail FROM line.operator_actions
WHERE ($1::text IS NULL OR room = $1) AND ($2::bigint IS NULL OR id < $2) ORDER BY id DESC LIMIT $3;
