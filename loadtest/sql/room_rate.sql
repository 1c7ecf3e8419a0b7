-- From when a room lets in, and how many a minute. $1 the room.
SELECT extract(epoch FROM coalesce(opens_at, created_at))::float8 AS since, rate_per_minute::float8 AS rate_per_minute
  FROM line.rooms WHERE name = $1;
