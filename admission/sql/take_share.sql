-- Take a worker's share of the rates of rooms, for the next ten minutes.
-- $1 the worker's id; arrays of one length: $2 rooms, $3 the share of each (admissions a minute) that the worker holds now.
-- Answers room, rate_per_minute: the share that it holds from now on; no row for a room whose policy is not last-rate.
-- Safe under races: lock_shares.sql has locked all shares. What others may believe to hold is left to them, and what
-- this worker held counts until it has said that it holds less, so that a lost answer never makes all shares exceed the rate.
WITH live AS (
    SELECT count(*) AS workers FROM line.workers WHERE seen_at > clock_timestamp() - interval '10 seconds'
), wanted AS (
    SELECT
        room.name AS room, held.rate AS held,
        greatest(0, least(
            room.rate_per_minute::float8 / greatest(1, live.workers),
            room.rate_per_minute - coalesce((
                SELECT sum(share.rate_per_minute) FROM line.shares AS share
                WHERE share.room = room.name AND share.worker <> $1 AND share.valid_until > clock_timestamp()
            ), 0)
        )) AS rate
    FROM live, unnest($2::text[], $3::float8[]) AS held (room, rate)
    JOIN line.rooms AS room ON room.name = held.room AND room.away_policy = 'last-rate'
), taken AS (
    INSERT INTO line.shares AS share (room, worker, rate_per_minute, valid_until)
    SELECT room, $1, greatest(rate, held), clock_timestamp() + interval '10 minutes' FROM wanted ORDER BY room
    ON CONFLICT (room, worker) DO UPDATE
        SET rate_per_minute = EXCLUDED.rate_per_minute, valid_until = EXCLUDED.valid_until
)
SELECT room, rate AS rate_per_minute FROM wanted;
