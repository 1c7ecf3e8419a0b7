-- The one row that the floor's commits change.
CREATE TABLE IF NOT EXISTS bench_floor (id integer PRIMARY KEY, count bigint NOT NULL);
INSERT INTO bench_floor VALUES (1, 0) ON CONFLICT DO NOTHING;
