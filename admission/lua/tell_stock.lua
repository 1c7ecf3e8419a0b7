-- Tell the line what stock is left for a room.
-- KEYS[1] {room}:stock  hash free, held, at_ms; expires after a minute of silence.
-- ARGV[1] free units, ARGV[2] held units.
-- Answers {'told'}. Safe under races: the last word counts; it carries this Redis's time.
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'free', ARGV[1], 'held', ARGV[2],
    'at_ms', string.format('%.0f', tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)))
redis.call('PEXPIRE', KEYS[1], 60000)
return { 'told' }
