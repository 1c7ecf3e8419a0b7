-- Revoke tickets: free their slots and let none of them claim again. Postgres holds the revocations before.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:extended: as in turns.lua.
-- ARGV[1] generation, then ticket ids.
-- Answers {'revoked', how many slots are free now}. Revoking twice is revoking once.
-- Safe under races: a ticket without a claim gets the record of one that is over, so that a claim on its way finds it used.
local freed = 0
for at = 2, #ARGV do
    local issued, expires = string.match(redis.call('HGET', KEYS[3], ARGV[at]) or '', '^(%d+) (%d+) ')
    if not issued then
        issued, expires = whole(now_seconds), whole(now_seconds + number('pass_seconds'))
    end
    freed = freed + redis.call('ZREM', KEYS[2], ARGV[at])
    redis.call('ZREM', KEYS[5], ARGV[at])
    redis.call('HSET', KEYS[3], ARGV[at], issued .. ' ' .. expires .. ' revoked')
    redis.call('ZADD', KEYS[4], tonumber(expires) + 3600, ARGV[at])
end
return { 'revoked', freed }
