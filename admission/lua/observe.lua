-- Observe the line before a step, and tidy what time has ended.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:extended,
-- KEYS[6] {room}:claimed, KEYS[7] {room}:doubtful, KEYS[8] {room}:lapsed, KEYS[9] {room}:turns: as in turns.lua.
-- KEYS[10] {room}:pacing as in step.lua; KEYS[11] {room}:stock as in tell_stock.lua.
-- ARGV[1] generation, ARGV[2] how lately (ms) somebody must have been asked to wait to be counted at the door, at least.
-- Answers {'observed', now ms, what the rate alone would have called (text), called, active, doubtful, tokens (text), at the
--   door, entries, numbers, over, clock ms, the moment of the last step in ms, entries_closed, dormant, joins left before it
--   wakes (text), the pacing ('' where there is none), the stock's free, held, queue share, latency in ms (texts, '' where it
--   said nothing) and age in ms (or ''), then for each of the pacing's cohorts how many of it have shown up}.
-- Safe under races: what it tidies no claim would grant on; at most 1,000 turns lapse and 1,000 claims are
--   forgotten a call; a turn that lapses later is over all the same.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_seconds)
for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', number('clock_ms'), 'LIMIT', 0, 1000)) do
    redis.call('ZREM', KEYS[5], ticket)
    redis.call('ZADD', KEYS[8], now_ms, ticket)
end
redis.call('ZREMRANGEBYSCORE', KEYS[8], '-inf', now_ms - tonumber(line.grace_ms or 0))
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', number('over'))
redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', number('clock_ms'))
local forgotten = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now_seconds, 'LIMIT', 0, 1000)
for _, ticket in ipairs(forgotten) do
    redis.call('HDEL', KEYS[3], ticket)
    redis.call('HDEL', KEYS[9], ticket)
    redis.call('ZREM', KEYS[4], ticket)
end
local called = math.floor(serving())
-- Whoever the room refused just now has a turn that ends a whole turn from the refusal.
local turn_ends_ms = number('clock_ms') + number('turn_ms')
local door_ms = math.max(tonumber(ARGV[2]), 120000 / number('rate_per_minute'))
local pacing = redis.call('GET', KEYS[10]) or ''
local stock = redis.call('HMGET', KEYS[11], 'free', 'held', 'queue_share', 'latency_ms', 'at_ms')
local answer = {
    'observed',
    now_ms,
    string.format('%.17g', serving(true)),
    called,
    redis.call('ZCARD', KEYS[2]),
    redis.call('ZCARD', KEYS[7]),
    string.format('%.17g', tokens()),
    redis.call('ZCOUNT', KEYS[5], '(' .. whole(turn_ends_ms - door_ms), whole(turn_ends_ms)),
    number('entries'),
    number('numbers'),
    number('over'),
    number('clock_ms'),
    number('since_ms'),
    number('entries_closed'),
    tonumber(line.dormant or 0),
    string.format('%.17g', (line.standby_above_per_minute or '') ~= '' and arrivals_left() or 0),
    pacing,
    stock[1] or '',
    stock[2] or '',
    stock[3] or '',
    stock[4] or '',
    stock[5] and now_ms - tonumber(stock[5]) or '',
}
local below = line.over
for _, cohort in ipairs(pacing ~= '' and cjson.decode(pacing).cohorts or {}) do
    local last = whole(cohort[1])
    answer[#answer + 1] = redis.call('ZCOUNT', KEYS[6], '(' .. below, last)
    below = last
end
return answer
