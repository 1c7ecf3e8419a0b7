-- Turns: what claim.lua, look.lua and extend.lua know of a ticket's turn. Runs behind opening.lua, before the verb's own file.
-- KEYS[1]  {room}:line      hash: segment, settings, rate bucket, turn clock.
-- KEYS[2]  {room}:slots     zset ticket -> Unix second its pass expires: who is active. Purged by claim.lua.
-- KEYS[3]  {room}:claims    hash ticket -> 'issued expires state', state one of active, left, revoked.
-- KEYS[4]  {room}:forget    zset ticket -> Unix second at which observe.lua forgets its claim and its turn.
-- KEYS[5]  {room}:extended  zset ticket -> turn clock (ms) its turn ends, for turns that the room refused, that were extended
--                           or called once more: open turns that their place does not tell. Moved to lapsed by observe.lua.
-- KEYS[6]  {room}:claimed   zset ticket -> place, for tickets that showed up and whose place's turn is not over. Trimmed by observe.lua.
-- KEYS[7]  {room}:unsaved   list 'ticket place issued expires': claims that Postgres has not got yet.
-- KEYS[8]  {room}:doubtful  zset place -> turn clock (ms): called before Redis was lost, perhaps claimed. Purged by observe.lua.
-- KEYS[9]  {room}:calls     zset turn clock (ms) -> called: when places were called. Kept by step.lua.
-- KEYS[10] {room}:ended     zset Unix ms -> over: when places' turns ended. Kept for grace_seconds by step.lua.
-- KEYS[11] {room}:lapsed    zset ticket -> Unix ms its extended turn ended. Kept for grace_seconds by observe.lua.
-- KEYS[12] {room}:turns     hash ticket -> 'extensions, Unix ms of the last, 1 when called once more', for turns that have such.
-- Answers nothing. Safe under races: part of the one script that uses it. A turn is measured by the room's turn clock, which
--   stands still while the room refuses; grace by this Redis's own clock, never in places.
local TURN_KEPT_SECONDS = 172800
local over, clock_ms = number('over'), number('clock_ms')

local function turn_of(ticket)
    local extensions, extended_at_ms, again = string.match(redis.call('HGET', KEYS[12], ticket) or '0 0 0', '^(%d+) (%d+) (%d)$')
    return tonumber(extensions), tonumber(extended_at_ms), again == '1'
end

local function note_turn(ticket, extensions, extended_at_ms, again)
    redis.call('HSET', KEYS[12], ticket, extensions .. ' ' .. whole(extended_at_ms) .. ' ' .. (again and '1' or '0'))
    redis.call('ZADD', KEYS[4], now_seconds + TURN_KEPT_SECONDS, ticket)
end

-- Keep a turn open until `ends_ms` of the turn clock, never shorter than it is. Who showed up is no open turn by its place.
local function keep_turn(ticket, place, ends_ms)
    redis.call('ZADD', KEYS[5], 'GT', ends_ms, ticket)
    if place > over then
        redis.call('ZADD', KEYS[6], place, ticket)
    end
end

-- When the turn of a called place ends by the turn clock; nil when it is over.
local function turn_ends_ms(ticket, place)
    local ends_ms
    if place > over then
        local call = redis.call('ZRANGEBYSCORE', KEYS[9], place, '+inf', 'LIMIT', 0, 1)[1]
        ends_ms = (call and tonumber(call) or clock_ms) + number('turn_ms')
    end
    local extended_ms = tonumber(redis.call('ZSCORE', KEYS[5], ticket))
    if extended_ms and (place > over or extended_ms > clock_ms) then
        ends_ms = math.max(ends_ms or 0, extended_ms)
    end
    return ends_ms
end

-- Until when (Unix ms) a turn that is over may be called once more; nil when it may not any more.
local function grace_ends_ms(ticket, place)
    local grace_ms = tonumber(line.grace_ms or 0)
    local _, _, again = turn_of(ticket)
    if grace_ms == 0 or again then
        return nil
    end
    local ended_ms = redis.call('ZSCORE', KEYS[11], ticket)
    if not ended_ms and redis.call('ZSCORE', KEYS[5], ticket) then
        ended_ms = now_ms
    end
    ended_ms = ended_ms or redis.call('ZRANGEBYSCORE', KEYS[10], place, '+inf', 'LIMIT', 0, 1)[1]
    if not ended_ms and place <= tonumber(line.forgot_over or 0) then
        ended_ms = line.forgot_at_ms -- a lost Redis forgot whose turns were lengthened, and when turns ended
    end
    ended_ms = tonumber(ended_ms)
    if not ended_ms or ended_ms + grace_ms <= now_ms then
        return nil
    end
    return ended_ms + grace_ms
end

-- Call a missed ticket once more, at the head: a new full turn. Whether it was.
local function call_again(ticket, place)
    if not grace_ends_ms(ticket, place) then
        return false
    end
    local extensions, extended_at_ms = turn_of(ticket)
    note_turn(ticket, extensions, extended_at_ms, true)
    redis.call('ZREM', KEYS[11], ticket)
    keep_turn(ticket, place, clock_ms + number('turn_ms'))
    return true
end
