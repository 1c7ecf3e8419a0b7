-- Opens every verb of the line: reads the room's state, refuses another generation, and works out what is called now.
-- KEYS[1] {room}:line   hash, no expiry: the room's state; absent until a leader has written it.
-- ARGV[1] the generation that the caller believes in.
-- Answers {'generation'} when this Redis holds another generation or none: the caller waits for the leader to mend it.
-- Safe under races: a script runs alone; time is this Redis's own, never a caller's.
local line = {}
do
    local flat = redis.call('HGETALL', KEYS[1])
    for i = 1, #flat, 2 do
        line[flat[i]] = flat[i + 1]
    end
end
if line.generation == nil or line.generation ~= ARGV[1] then
    return { 'generation' }
end

local now = redis.call('TIME')
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local now_seconds = tonumber(now[1])

local function number(name)
    return tonumber(line[name])
end

local function whole(value)
    return string.format('%.0f', value)
end

-- min(base + rate x (min(now, valid_until) - since), called_max), in places; `unbounded` leaves the last bound out.
local function serving(unbounded)
    local elapsed_ms = math.max(0, math.min(now_ms, number('valid_until_ms')) - number('since_ms'))
    local reached = number('base') + number('call_rate') * elapsed_ms / 60000
    if unbounded then
        return reached
    end
    return math.min(reached, number('called_max'))
end

-- The rate bucket as of now: one second of the rate fits (at least one), refilled at the rate.
local function tokens()
    local rate = number('rate_per_minute')
    local elapsed_ms = math.max(0, now_ms - number('bucket_at_ms'))
    return math.min(math.max(1, rate / 60), number('bucket') + rate * elapsed_ms / 60000)
end

-- The room's phase: what an operator's hand has set, else what its schedule says.
local function phase()
    if line.phase ~= nil and line.phase ~= 'scheduled' then
        return line.phase
    end
    if line.prequeue_at_ms ~= '' and now_ms < number('prequeue_at_ms') then
        return 'draft'
    end
    if line.closes_at_ms ~= '' and now_ms >= number('closes_at_ms') then
        return 'closed'
    end
    if line.opens_at_ms ~= '' and now_ms < number('opens_at_ms') then
        return 'prequeue'
    end
    return 'open'
end

-- Whether everybody passes: the operator's method while the room is open and nobody has paused it.
local function lets_pass()
    return line.method == 'passthrough' and line.paused ~= '1' and phase() == 'open'
end

-- How many more may join within a minute before a room that stands by wakes: refilled at its threshold.
local function arrivals_left()
    local threshold = number('standby_above_per_minute')
    local elapsed_ms = math.max(0, now_ms - tonumber(line.arrivals_at_ms or 0))
    return math.min(threshold, tonumber(line.arrivals_left or threshold) + threshold * elapsed_ms / 60000)
end
