-- Look at one ticket: where it stands, changing nothing.
-- KEYS[1] {room}:line; KEYS[2] {room}:claims, KEYS[3] {room}:extended: as in claim.lua; KEYS[4] {room}:calls as in step.lua.
-- ARGV[1] generation, ARGV[2] ticket id, ARGV[3] place.
-- Answers {'admitted', issued, expires}, {'ended', issued, expires}, {'waiting', called so far},
--   {'called', ms left of the turn}, or {'missed'}.
-- Safe under races: it reads one moment; claim.lua decides again.
local record = redis.call('HGET', KEYS[2], ARGV[2])
if record then
    local issued, expires, state = string.match(record, '^(%d+) (%d+) (%a+)$')
    local current = state == 'active' and tonumber(expires) > now_seconds
    return { current and 'admitted' or 'ended', tonumber(issued), tonumber(expires) }
end
local now_in = phase()
local place = tonumber(ARGV[3])
if now_in == 'open' and (line.method == 'passthrough' or (line.dormant == '1' and place > math.floor(serving()))) then
    return { 'called', number('turn_ms') }
end
if place > math.floor(serving()) then
    return { 'waiting', math.floor(serving()) }
end
local clock_ms = number('clock_ms')
local ends_ms = -1
if place > number('over') then
    local call = redis.call('ZRANGEBYSCORE', KEYS[4], place, '+inf', 'LIMIT', 0, 1)[1]
    ends_ms = (call and tonumber(call) or clock_ms) + number('turn_ms')
end
local extended_ms = redis.call('ZSCORE', KEYS[3], ARGV[2])
if extended_ms then
    ends_ms = math.max(ends_ms, tonumber(extended_ms))
end
if ends_ms < 0 or (ends_ms <= clock_ms and place <= number('over')) then
    return { 'missed' }
end
return { 'called', math.max(0, ends_ms - clock_ms) }
