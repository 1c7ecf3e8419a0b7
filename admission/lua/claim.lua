-- Claim a called place: grants a slot under the rate and the active cap, or says why not.
-- KEYS[1] {room}:line      hash: segment, settings, rate bucket, turn clock.
-- KEYS[2] {room}:slots     zset ticket -> Unix second its pass expires: who is active. Purged here.
-- KEYS[3] {room}:claims    hash ticket -> 'issued expires state', forgotten by observe.lua an hour after expiry.
-- KEYS[4] {room}:forget    zset ticket -> Unix second to forget its claim.
-- KEYS[5] {room}:extended  zset ticket -> turn clock (ms) its turn ends: whom the room itself refused. Purged by observe.lua.
-- KEYS[6] {room}:claimed   zset ticket -> place, for places whose turns are not over. Trimmed by observe.lua.
-- KEYS[7] {room}:unsaved   list 'ticket place issued expires': claims that Postgres has not got yet.
-- KEYS[8] {room}:doubtful  zset place -> turn clock (ms): called before Redis was lost, perhaps claimed. Purged by observe.lua.
-- ARGV[1] generation, ARGV[2] ticket id, ARGV[3] place.
-- Answers {'granted' or 'again', issued, expires}, {'early', called so far}, {'wait', 'paused' | 'full' | 'rate', ms},
--   {'missed'}, {'closed'} after the sale, or {'ended'}: this turn was used and its pass is over.
-- Safe under races: one script decides cap, rate and slot together; a repeat finds its claim and changes nothing.
--   A room that lets everybody pass asks neither rate nor cap and counts such admissions apart; one that stands by calls
--   everybody at once, until rate or cap refuses somebody: that wakes it.
--   A turn that the room refuses starts anew from the refusal, so that it cannot run out while the room is the cause.
local record = redis.call('HGET', KEYS[3], ARGV[2])
if record then
    local issued, expires, state = string.match(record, '^(%d+) (%d+) (%a+)$')
    if state ~= 'active' or tonumber(expires) <= now_seconds then
        return { 'ended' }
    end
    return { 'again', tonumber(issued), tonumber(expires) }
end

local now_in = phase()
if now_in == 'closed' then
    return { 'closed' }
end
local place = tonumber(ARGV[3])
local passing = line.method == 'passthrough' and now_in == 'open'
local called = math.floor(serving())
local dormant = line.dormant == '1' and now_in == 'open'
local clock_ms = number('clock_ms')
if not passing then
    if place > called and not dormant then
        return { 'early', called }
    end
    if place <= number('over') then
        local ends_ms = redis.call('ZSCORE', KEYS[5], ARGV[2])
        if not ends_ms or tonumber(ends_ms) <= clock_ms then
            return { 'missed' }
        end
    end
end

local function wait(reason, wait_ms)
    if dormant then
        redis.call('HSET', KEYS[1], 'dormant', '0')
    end
    if place > called then
        return { 'early', called }
    end
    redis.call('ZADD', KEYS[5], clock_ms + number('turn_ms'), ARGV[2])
    return { 'wait', reason, math.ceil(wait_ms) }
end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_seconds)
local left = tokens()
if not passing then
    if line.paused == '1' or line.method == 'reject' then
        return wait('paused', 5000)
    end
    if line.active_max ~= '' then
        local others_doubtful = redis.call('ZCARD', KEYS[8])
        if redis.call('ZSCORE', KEYS[8], ARGV[3]) then
            others_doubtful = others_doubtful - 1
        end
        if redis.call('ZCARD', KEYS[2]) + others_doubtful >= number('active_max') then
            return wait('full', 2000)
        end
    end
    if left < 1 then
        return wait('rate', (1 - left) * 60000 / number('rate_per_minute'))
    end
end

local expires = now_seconds + number('pass_seconds')
local times = whole(now_seconds) .. ' ' .. whole(expires)
if passing then
    redis.call('HINCRBY', KEYS[1], 'passed', 1)
else
    redis.call('HSET', KEYS[1], 'bucket', string.format('%.17g', left - 1), 'bucket_at_ms', whole(now_ms))
    redis.call('HINCRBY', KEYS[1], 'admitted', 1)
end
redis.call('ZADD', KEYS[2], expires, ARGV[2])
redis.call('HSET', KEYS[3], ARGV[2], times .. ' active')
redis.call('ZADD', KEYS[4], expires + 3600, ARGV[2])
redis.call('ZREM', KEYS[5], ARGV[2])
redis.call('ZADD', KEYS[6], place, ARGV[2])
redis.call('RPUSH', KEYS[7], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. times)
redis.call('ZREM', KEYS[8], ARGV[3])
return { 'granted', now_seconds, expires }
