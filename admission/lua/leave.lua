-- Leave: free a ticket's slot at once. Its pass must be revoked in Postgres before, so that a crash between leaves at
-- worst a slot that expires by itself.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims: as in turns.lua.
-- ARGV[1] generation, ARGV[2] ticket id.
-- Answers {'left', when its longest pass expires}, or {'none'} where the ticket holds no claim. Leaving twice is leaving once.
-- Safe under races: the claim is kept, marked as left, so that the same turn cannot be claimed or renewed again.
local record = redis.call('HGET', KEYS[3], ARGV[2])
if not record then
    return { 'none' }
end
local issued, expires, state = string.match(record, '^(%d+) (%d+) (%a+)$')
redis.call('ZREM', KEYS[2], ARGV[2])
if state == 'active' then
    redis.call('HSET', KEYS[3], ARGV[2], issued .. ' ' .. expires .. ' left')
end
return { 'left', tonumber(expires) }
