-- Look at one ticket: where it stands, changing nothing.
-- KEYS: as in turns.lua.
-- ARGV[1] generation, ARGV[2] ticket id, ARGV[3] place.
-- Answers {'admitted', issued, expires}, {'ended', issued, expires}, {'waiting', called so far},
--   {'called', ms left of the turn, extensions used}, or {'missed', ms left in which it may be called once more, or 0}.
-- Safe under races: it reads one moment; claim.lua decides again.
local record = redis.call('HGET', KEYS[3], ARGV[2])
if record then
    local issued, expires, state = string.match(record, '^(%d+) (%d+) (%a+)$')
    local current = state == 'active' and tonumber(expires) > now_seconds
    return { current and 'admitted' or 'ended', tonumber(issued), tonumber(expires) }
end
local now_in = phase()
local place = tonumber(ARGV[3])
local called = math.floor(serving())
local extensions = turn_of(ARGV[2])
if lets_pass() or (now_in == 'open' and line.dormant == '1' and place > called) then
    return { 'called', number('turn_ms'), extensions }
end
if place > called then
    return { 'waiting', called }
end
local ends_ms = turn_ends_ms(ARGV[2], place)
if ends_ms then
    return { 'called', math.max(0, ends_ms - clock_ms), extensions }
end
return { 'missed', (grace_ends_ms(ARGV[2], place) or now_ms) - now_ms }
