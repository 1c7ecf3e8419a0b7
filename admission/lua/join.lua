-- Join the line: an entry before the entries close, a number after.
-- KEYS[1] {room}:line      hash: counters entries, numbers and their limits; entries_closed.
-- KEYS[2] {room}:entrants  hash, the first 20 bytes of the client_id -> 'e12' or 'n12', no expiry: who joined, one place for
--   each client. Two clients with the same 20 bytes cannot be made.
-- KEYS[3] {room}:unsaved_entries  list 'entry client_id': entries that Postgres has not got yet, in their order.
-- ARGV[1] generation, ARGV[2] those 20 bytes, ARGV[3] and ARGV[4] the entry and number limits the caller knows from Postgres,
-- ARGV[5] client_id in base64url.
-- Answers {'known', 'e12'} for a client who joined before, {'joined', 'e12'}, {'not-yet'} before the pre-queue,
--   {'closed'} after the sale, {'rejecting'}, {'full'}, or {'limit', 'e' or 'n', limit}: raise that limit in Postgres and ask again.
-- Safe under races: the counter moves in the script that records its owner, never above a limit that Postgres holds;
--   the first join after opening closes the entries, so no entry is issued that the draw would not count.
-- Who joined by a worker of the version before stands there by the whole text.
local existing = redis.call('HGET', KEYS[2], ARGV[2]) or redis.call('HGET', KEYS[2], ARGV[5])
if existing then
    return { 'known', existing }
end
local now_in = phase()
if now_in == 'draft' then
    return { 'not-yet' }
end
if now_in == 'closed' then
    return { 'closed' }
end
if line.method == 'reject' then
    return { 'rejecting' }
end
if line.entries_max ~= '' and number('entries') + number('numbers') - number('passed_over') >= number('entries_max') then
    return { 'full' }
end

local kind, counter, limit = 'n', 'numbers', math.max(number('number_limit'), tonumber(ARGV[4]))
if line.entries_closed == '0' then
    if now_in == 'prequeue' then
        kind, counter, limit = 'e', 'entries', math.max(number('entry_limit'), tonumber(ARGV[3]))
    else
        redis.call('HSET', KEYS[1], 'entries_closed', '1')
    end
end
if number(counter) >= limit then
    return { 'limit', kind, limit }
end
local index = whole(redis.call('HINCRBY', KEYS[1], counter, 1))
local place = kind .. index
redis.call('HSET', KEYS[2], ARGV[2], place)
if kind == 'e' then
    redis.call('RPUSH', KEYS[3], index .. ' ' .. ARGV[5])
end
if line.standby_above_per_minute ~= nil and line.standby_above_per_minute ~= '' then
    local left = arrivals_left() - 1
    redis.call('HSET', KEYS[1], 'arrivals_left', string.format('%.17g', math.max(0, left)), 'arrivals_at_ms', whole(now_ms))
    if left < 0 then
        redis.call('HSET', KEYS[1], 'dormant', '0')
    end
end
return { 'joined', place }
