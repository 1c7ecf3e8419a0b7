-- Tell the line what stock is left for a room, and how busy the stock is.
-- KEYS[1] {room}:stock  hash free, held, queue_share, latency_ms, at_ms; expires after a minute of silence.
-- ARGV[1] free units, ARGV[2] held units, ARGV[3] how full its fullest lane is (0 to 1), ARGV[4] how slow recent reserves
-- were (95th percentile, ms), '' where there were none.
-- Answers {'told'}. Safe under races: the last word counts; it carries this Redis's time.
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'free', ARGV[1], 'held', ARGV[2], 'queue_share', ARGV[3], 'latency_ms', ARGV[4],
    'at_ms', string.format('%.0f', tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)))
redis.call('PEXPIRE', KEYS[1], 60000)
return { 'told' }
