-- Join the line, many at once, in order of arrival: an entry before the entries close, a number after.
-- KEYS[1] {room}:line      hash: counters entries, numbers and their limits; entries_closed.
-- KEYS[2] {room}:entrants  hash, the first 20 bytes of the client_id -> 'e12' or 'n12', no expiry: who joined, one place for
--   each client. Two clients with the same 20 bytes cannot be made.
-- KEYS[3] {room}:unsaved_entries  list 'entry client_id': entries that Postgres has not got yet, in their order.
-- ARGV[1] generation, ARGV[2] and ARGV[3] the entry and number limits the caller knows from Postgres, then for each client those
-- 20 bytes and client_id in base64url.
-- Answers {'joins', a row for each}: {'known', 'e12'} for a client who joined before, {'joined', 'e12'}, {'not-yet'} before the
--   pre-queue, {'closed'} after the sale, {'rejecting'}, {'full'}, or {'limit', 'e' or 'n', limit}: raise that limit in Postgres
--   and ask again.
-- Safe under races: the counter moves in the script that records its owner, never above a limit that Postgres holds;
--   the first join after opening closes the entries, so no entry is issued that the draw would not count.
-- Who joined by a worker of the version before stands there by the whole text.
local names = { unpack(ARGV, 4) }
local known = redis.call('HMGET', KEYS[2], unpack(names))
local now_in = phase()
local counters = { e = 'entries', n = 'numbers' }
local issued = { e = number('entries'), n = number('numbers') }
local limits = {
    e = math.max(number('entry_limit'), tonumber(ARGV[2])),
    n = math.max(number('number_limit'), tonumber(ARGV[3])),
}
local entries_open = line.entries_closed == '0'
local added = { e = 0, n = 0 }
local here, owners, unsaved = {}, {}, {}

local function join(digest, client_id, existing)
    existing = existing or here[digest]
    if existing then
        return { 'known', existing }
    end
    if now_in == 'draft' then
        return { 'not-yet' }
    end
    if now_in == 'closed' then
        return { 'closed' }
    end
    if line.method == 'reject' then
        return { 'rejecting' }
    end
    if line.entries_max ~= '' and issued.e + issued.n - number('passed_over') >= number('entries_max') then
        return { 'full' }
    end
    if entries_open and now_in ~= 'prequeue' then
        entries_open = false
        redis.call('HSET', KEYS[1], 'entries_closed', '1')
    end
    local kind = entries_open and 'e' or 'n'
    if issued[kind] >= limits[kind] then
        return { 'limit', kind, limits[kind] }
    end
    issued[kind], added[kind] = issued[kind] + 1, added[kind] + 1
    local index = whole(issued[kind])
    here[digest] = kind .. index
    owners[#owners + 1], owners[#owners + 2] = digest, kind .. index
    if kind == 'e' then
        unsaved[#unsaved + 1] = index .. ' ' .. client_id
    end
    return { 'joined', kind .. index }
end

local answer = { 'joins' }
for at = 1, #names, 2 do
    answer[#answer + 1] = join(names[at], names[at + 1], known[at] or known[at + 1])
end
for kind, counter in pairs(counters) do
    if added[kind] > 0 then
        redis.call('HINCRBY', KEYS[1], counter, added[kind])
    end
end
if #owners > 0 then
    redis.call('HSET', KEYS[2], unpack(owners))
    if line.standby_above_per_minute ~= nil and line.standby_above_per_minute ~= '' then
        local left = arrivals_left() - added.e - added.n
        redis.call('HSET', KEYS[1], 'arrivals_left', string.format('%.17g', math.max(0, left)), 'arrivals_at_ms', whole(now_ms))
        if left < 0 then
            redis.call('HSET', KEYS[1], 'dormant', '0')
        end
    end
end
if #unsaved > 0 then
    redis.call('RPUSH', KEYS[3], unpack(unsaved))
end
return answer
