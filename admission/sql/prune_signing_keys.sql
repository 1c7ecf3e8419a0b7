-- Forget retired keys that nothing alive can be signed with.
-- $1 how many seconds a retired pass key is kept. Answers nothing.
-- A ticket lives as long as its room's epoch: its key goes when every room's present epoch began after the key had
-- retired (a minute is left for a worker that signed at that moment). Revoked keys stay, so that they are told by name.
-- Safe under races: keys only ever go from retired to gone; whoever shows a token of one hears that its key is unknown.
DELETE FROM line.signing_keys AS key
WHERE key.state = 'retired' AND CASE key.purpose
    WHEN 'pass' THEN key.retired_at < clock_timestamp() - make_interval(secs => $1)
    ELSE NOT EXISTS (
        SELECT FROM line.rooms AS room
        LEFT JOIN line.draws AS draw ON draw.room = room.name AND draw.epoch = room.epoch
        WHERE coalesce(draw.committed_at, room.created_at) < key.retired_at + interval '1 minute'
    )
END;
