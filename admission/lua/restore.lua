-- Restore: begin a generation, after Redis was lost, rewound or never held this room. Postgres holds all of it already.
-- KEYS[1] {room}:line, KEYS[2] {room}:calls, KEYS[3] {room}:slots, KEYS[4] {room}:claims, KEYS[5] {room}:forget,
-- KEYS[6] {room}:claimed, KEYS[7] {room}:doubtful: as in turns.lua.
-- ARGV[1] generation, ARGV[2] term, ARGV[3] counts of: calls, claims, doubtful places, as 'a b c'; then two values for
-- each call (clock, called), five for each claim (ticket, place, issued, expires, state), two for each doubtful place (place,
-- clock), then names and values of the whole hash but for bucket_at_ms, which is now.
-- Answers {'restored'}, or {'term'} where a later leader or generation has been here.
-- Safe under races: a lower term or generation changes nothing. {room}:entrants is kept: what Redis still knows of who
--   joined stays true, since entries and numbers never go back. So are extended, ended, lapsed and turns: what is told
--   there of a turn stays true, since the turn clock never goes back either. {room}:unsaved too: Postgres takes each claim once.
local held = redis.call('HMGET', KEYS[1], 'generation', 'term')
if tonumber(held[1] or 0) >= tonumber(ARGV[1]) or tonumber(held[2] or 0) > tonumber(ARGV[2]) then
    return { 'term' }
end
redis.call('DEL', unpack(KEYS))
local calls, claims, doubtful = string.match(ARGV[3], '^(%d+) (%d+) (%d+)$')
local at = 4
for _ = 1, tonumber(calls) do
    redis.call('ZADD', KEYS[2], ARGV[at + 1], ARGV[at])
    at = at + 2
end
for _ = 1, tonumber(claims) do
    local ticket, place, issued, expires, state = unpack(ARGV, at, at + 4)
    if state == 'active' then
        redis.call('ZADD', KEYS[3], expires, ticket)
    end
    redis.call('HSET', KEYS[4], ticket, issued .. ' ' .. expires .. ' ' .. state)
    redis.call('ZADD', KEYS[5], tonumber(expires) + 3600, ticket)
    redis.call('ZADD', KEYS[6], place, ticket)
    at = at + 5
end
for _ = 1, tonumber(doubtful) do
    redis.call('ZADD', KEYS[7], ARGV[at + 1], ARGV[at])
    at = at + 2
end
while at <= #ARGV do
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
    at = at + 2
end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'term', ARGV[2],
    'bucket_at_ms', string.format('%.0f', tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)))
return { 'restored' }
