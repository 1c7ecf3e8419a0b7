-- Observe the line before a step, and tidy what time has ended.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:extended,
-- KEYS[6] {room}:claimed, KEYS[7] {room}:doubtful, KEYS[8] {room}:lapsed, KEYS[9] {room}:turns: as in turns.lua.
-- ARGV[1] generation.
-- Answers {'observed', now ms, what the rate alone would have called (text), called, active, open turns, entries,
--   numbers, over, clock ms, the moment of the last step in ms, entries_closed, dormant, joins left before it wakes (text)}.
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
local open_turns = called - number('over') - redis.call('ZCOUNT', KEYS[6], '(' .. line.over, called) + redis.call('ZCARD', KEYS[5])
return {
    'observed',
    now_ms,
    string.format('%.17g', serving(true)),
    called,
    redis.call('ZCARD', KEYS[2]),
    math.max(0, open_turns),
    number('entries'),
    number('numbers'),
    number('over'),
    number('clock_ms'),
    number('since_ms'),
    number('entries_closed'),
    tonumber(line.dormant or 0),
    string.format('%.17g', (line.standby_above_per_minute or '') ~= '' and arrivals_left() or 0),
}
