-- Renew the slots of buyers who were active: each lasts pass_seconds from now, never shorter than it did.
-- KEYS[1] {room}:line, KEYS[2] {room}:slots, KEYS[3] {room}:claims, KEYS[4] {room}:forget, KEYS[5] {room}:unsaved: as in turns.lua
-- (there unsaved is KEYS[7]).
-- ARGV[1] generation, then ticket ids.
-- Answers {'renewed', a Unix second for each ticket}: when its slot expires now, or 0 where it has none (any more).
-- Safe under races: the slot is longer before any pass is; only an active claim is renewed, so what was left, revoked or has
--   expired stays over. What it lengthens is noted in {room}:unsaved with place 0, behind its claim: Postgres keeps the longest.
local answer = { 'renewed' }
for at = 2, #ARGV do
    local ticket = ARGV[at]
    local issued, expires, state = string.match(redis.call('HGET', KEYS[3], ticket) or '', '^(%d+) (%d+) (%a+)$')
    if state ~= 'active' or tonumber(expires) <= now_seconds then
        answer[at] = 0
    else
        local longer = now_seconds + number('pass_seconds')
        if line.renew == '1' and longer > tonumber(expires) then
            local times = issued .. ' ' .. whole(longer)
            redis.call('ZADD', KEYS[2], longer, ticket)
            redis.call('HSET', KEYS[3], ticket, times .. ' active')
            redis.call('ZADD', KEYS[4], longer + 3600, ticket)
            redis.call('RPUSH', KEYS[5], ticket .. ' 0 ' .. times)
            expires = longer
        end
        answer[at] = tonumber(expires)
    end
end
return answer
