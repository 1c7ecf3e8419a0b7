-- Refill: bring claims into a room that restore.lua has prepared; the last call hands the room to its generation.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:claimed: as in turns.lua.
-- ARGV[1] generation, ARGV[2] '1' in the last call, then five values for each claim: ticket, place, issued, expires, state. At
-- most 1,000 claims.
-- Answers {'refilled'}, or {'term'} where this generation is not the one that is being restored.
-- Safe under races: no verb runs on the room before the last call; a repeat of any call changes nothing.
if redis.call('HGET', KEYS[1], 'restoring') ~= ARGV[1] then
    return { 'term' }
end
for at = 3, #ARGV, 5 do
    local ticket, place, issued, expires, state = unpack(ARGV, at, at + 4)
    if state == 'active' then
        redis.call('ZADD', KEYS[2], expires, ticket)
    end
    redis.call('HSET', KEYS[3], ticket, issued .. ' ' .. expires .. ' ' .. state)
    redis.call('ZADD', KEYS[4], tonumber(expires) + 3600, ticket)
    redis.call('ZADD', KEYS[5], place, ticket)
end
if ARGV[2] == '1' then
    local now = redis.call('TIME')
    redis.call('HDEL', KEYS[1], 'restoring')
    redis.call('HSET', KEYS[1], 'generation', ARGV[1],
        'bucket_at_ms', string.format('%.0f', tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)))
end
return { 'refilled' }
