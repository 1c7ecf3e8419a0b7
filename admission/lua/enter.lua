-- Enter claims that this Redis has not heard of: granted while it was away, or come late. They count against the cap.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:claimed,
-- KEYS[6] {room}:doubtful: as in claim.lua.
-- ARGV[1] generation, then five values for each claim: ticket, place, issued, expires, state. At most 1,000 claims.
-- Answers {'entered', how many were new}.
-- Safe under races: a claim that is known stays as it is; entering twice is entering once.
local entered = 0
for at = 2, #ARGV, 5 do
    local ticket, place, issued, expires, state = unpack(ARGV, at, at + 4)
    if redis.call('HSETNX', KEYS[3], ticket, issued .. ' ' .. expires .. ' ' .. state) == 1 then
        entered = entered + 1
        if state == 'active' and tonumber(expires) > now_seconds then
            redis.call('ZADD', KEYS[2], expires, ticket)
        end
        redis.call('ZADD', KEYS[4], tonumber(expires) + 3600, ticket)
        redis.call('ZADD', KEYS[5], place, ticket)
        redis.call('ZREM', KEYS[6], place)
    end
end
return { 'entered', entered }
