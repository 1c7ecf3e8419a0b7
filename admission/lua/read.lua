-- Read a room's public figures for its status document, changing nothing.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots: as in turns.lua; KEYS[3] {room}:stock as in tell_stock.lua: the stock's last word.
-- ARGV[1] generation.
-- Answers {'read', now ms, base, since ms, valid_until ms, call_rate, called_max, called, active, entries, numbers,
--   admitted, passed (without rate or cap), dormant, how the line is called, the rate it is let in at (text), free, held, age
--   of the stock's word in ms}; the last three are '' where the stock has said nothing.
-- Safe under races: it reads one moment.
local stock = redis.call('HMGET', KEYS[3], 'free', 'held', 'at_ms')
return {
    'read',
    now_ms,
    line.base,
    number('since_ms'),
    number('valid_until_ms'),
    line.call_rate,
    number('called_max'),
    math.floor(serving()),
    redis.call('ZCOUNT', KEYS[2], '(' .. now_seconds, '+inf'),
    number('entries'),
    number('numbers'),
    number('admitted'),
    tonumber(line.passed or 0),
    tonumber(line.dormant or 0),
    line.calling or '',
    line.rate_per_minute,
    stock[1] or '',
    stock[2] or '',
    stock[3] and now_ms - tonumber(stock[3]) or '',
}
