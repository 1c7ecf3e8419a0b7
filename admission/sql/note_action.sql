-- Note what an operator did. $1 actor, $2 action, $3 room or null, $4 detail (a JSON object). Answers nothing.
-- Safe under races: append-only; written in the transaction of what it tells of.
INSERT INTO line.operator_actions (actor, action, room, detail) VALUES ($1, $2, $3, $4::jsonb);
