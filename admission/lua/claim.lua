-- Claim called places, many at once: each is granted a slot under the rate and the active cap, or told why not.
-- KEYS: as in turns.lua.
-- ARGV[1] generation, then ticket id and place of each claim, in order of arrival.
-- Answers {'claims', a row for each}: {'granted' or 'again', issued, expires}, {'early', called so far},
--   {'wait', 'paused' | 'full' | 'rate', ms}, {'missed'}, {'closed'} after the sale, or {'ended'}: this turn was used and
--   its pass is over.
-- Safe under races: one script decides cap, rate and slot together; a repeat, also within one call, finds its claim and
--   changes nothing. A room that lets everybody pass asks neither rate nor cap and counts such admissions apart; one that
--   stands by calls everybody at once, until rate or cap refuses somebody: that wakes it.
--   A turn that the room refuses starts anew from the refusal, so that it cannot run out while the room is the cause.
local now_in = phase()
local called = math.floor(serving())
local passing = lets_pass()
local dormant = line.dormant == '1' and now_in == 'open'
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_seconds)
local active, doubtful, left = redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[8]), tokens()
local admitted, passed = 0, 0
local unsaved = {}

local function wait(ticket, place, reason, wait_ms)
    if dormant then
        dormant = false
        redis.call('HSET', KEYS[1], 'dormant', '0')
    end
    if place > called then
        return { 'early', called }
    end
    keep_turn(ticket, place, clock_ms + number('turn_ms'))
    return { 'wait', reason, math.ceil(wait_ms) }
end

local function grant(ticket, place)
    local expires = now_seconds + number('pass_seconds')
    local times = whole(now_seconds) .. ' ' .. whole(expires)
    redis.call('ZADD', KEYS[2], expires, ticket)
    redis.call('HSET', KEYS[3], ticket, times .. ' active')
    redis.call('ZADD', KEYS[4], expires + 3600, ticket)
    redis.call('ZREM', KEYS[5], ticket)
    redis.call('ZADD', KEYS[6], place, ticket)
    doubtful = doubtful - redis.call('ZREM', KEYS[8], whole(place))
    active = active + 1
    unsaved[#unsaved + 1] = ticket .. ' ' .. whole(place) .. ' ' .. times
    return { 'granted', now_seconds, expires }
end

local function claim(ticket, place)
    local record = redis.call('HGET', KEYS[3], ticket)
    if record then
        local issued, expires, state = string.match(record, '^(%d+) (%d+) (%a+)$')
        if state ~= 'active' or tonumber(expires) <= now_seconds then
            return { 'ended' }
        end
        return { 'again', tonumber(issued), tonumber(expires) }
    end
    if now_in == 'closed' then
        return { 'closed' }
    end
    if passing then
        passed = passed + 1
        return grant(ticket, place)
    end
    if place > called and not dormant then
        return { 'early', called }
    end
    if not turn_ends_ms(ticket, place) and not call_again(ticket, place) then
        return { 'missed' }
    end
    if line.paused == '1' or line.method == 'reject' then
        return wait(ticket, place, 'paused', 5000)
    end
    if line.active_max ~= '' then
        local others_doubtful = doubtful - (redis.call('ZSCORE', KEYS[8], whole(place)) and 1 or 0)
        if active + others_doubtful >= number('active_max') then
            return wait(ticket, place, 'full', 2000)
        end
    end
    if left < 1 then
        return wait(ticket, place, 'rate', (1 - left) * 60000 / number('rate_per_minute'))
    end
    left = left - 1
    admitted = admitted + 1
    return grant(ticket, place)
end

local answer = { 'claims' }
for at = 2, #ARGV, 2 do
    answer[#answer + 1] = claim(ARGV[at], tonumber(ARGV[at + 1]))
end
if admitted > 0 then
    redis.call('HSET', KEYS[1], 'bucket', string.format('%.17g', left), 'bucket_at_ms', whole(now_ms))
    redis.call('HINCRBY', KEYS[1], 'admitted', admitted)
end
if passed > 0 then
    redis.call('HINCRBY', KEYS[1], 'passed', passed)
end
if #unsaved > 0 then
    redis.call('RPUSH', KEYS[7], unpack(unsaved))
end
return answer
