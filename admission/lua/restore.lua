-- Restore: begin a generation, after Redis was lost, rewound or never held this room. Postgres holds all of it already.
-- KEYS[1] {room}:line, KEYS[2] {room}:calls, KEYS[3] {room}:doubtful, KEYS[4] {room}:slots, KEYS[5] {room}:claims,
-- KEYS[6] {room}:forget, KEYS[7] {room}:claimed: as in turns.lua.
-- ARGV[1] generation, ARGV[2] term, ARGV[3] counts of: calls, doubtful places, as 'a b'; then two values for each call
-- (clock, called), two for each doubtful place (place, clock), then names and values of the whole hash but for
-- bucket_at_ms, which is now.
-- Answers {'restoring'}: refill.lua brings the claims, and only its last call makes the room this generation's; or {'term'}
--   where a later leader or generation has been here.
-- Safe under races: a lower term or generation changes nothing. {room}:entrants is kept: what Redis still knows of who
--   joined stays true, since entries and numbers never go back. So are extended, ended, lapsed and turns: what is told
--   there of a turn stays true, since the turn clock never goes back either. {room}:unsaved too: Postgres takes each claim once.
local held = redis.call('HMGET', KEYS[1], 'generation', 'restoring', 'term')
local generation = math.max(tonumber(held[1] or 0), tonumber(held[2] or 0))
if generation >= tonumber(ARGV[1]) or tonumber(held[3] or 0) > tonumber(ARGV[2]) then
    return { 'term' }
end
redis.call('DEL', unpack(KEYS))
local calls, doubtful = string.match(ARGV[3], '^(%d+) (%d+)$')
local at = 4
for _ = 1, tonumber(calls) do
    redis.call('ZADD', KEYS[2], ARGV[at + 1], ARGV[at])
    at = at + 2
end
for _ = 1, tonumber(doubtful) do
    redis.call('ZADD', KEYS[3], ARGV[at + 1], ARGV[at])
    at = at + 2
end
while at <= #ARGV do
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
    at = at + 2
end
redis.call('HSET', KEYS[1], 'restoring', ARGV[1], 'term', ARGV[2])
return { 'restoring' }
