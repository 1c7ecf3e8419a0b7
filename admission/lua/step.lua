-- Step: set the line's next segment and the room's settings. Postgres holds what it calls before this runs.
-- KEYS[1] {room}:line   hash.
-- KEYS[2] {room}:calls  zset turn clock (ms) -> called: when places were called. Trimmed here below the turns that are over.
-- KEYS[3] {room}:ended  zset Unix ms -> over: when turns ended, for as long as they may be called once more.
-- KEYS[4] {room}:pacing string, JSON: what the next step must know of this one, for the leader alone. Kept with the room.
-- ARGV[1] generation, ARGV[2] the leader's term, ARGV[3] the turn clock in ms, ARGV[4] the pacing, then names and values to
-- set in the hash.
-- Answers {'stepped', over}, or {'term'} to a leader whose lease has passed on.
-- Safe under races: a lower term changes nothing; the bucket is settled at the old rate before the new one holds; `over`
--   only grows, so that no turn that was over opens again.
if tonumber(ARGV[2]) < number('term') then
    return { 'term' }
end
local left = tokens()
local clock_ms = tonumber(ARGV[3])
local called = math.floor(serving())
local over = number('over')
local noted = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
if called > math.max(over, tonumber(noted or 0)) then
    redis.call('ZADD', KEYS[2], called, whole(clock_ms))
end
local called_before_ms = clock_ms - number('turn_ms')
while true do
    local call = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not call[1] or tonumber(call[1]) > called_before_ms then
        break
    end
    over = math.max(over, tonumber(call[2]))
    redis.call('ZREM', KEYS[2], call[1])
end
local grace_ms = tonumber(line.grace_ms or 0)
if over > number('over') and grace_ms > 0 then
    redis.call('ZADD', KEYS[3], over, whole(now_ms))
end
while true do
    local ended_ms = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    if not ended_ms or tonumber(ended_ms) + grace_ms > now_ms then
        break
    end
    redis.call('ZREM', KEYS[3], ended_ms)
end
redis.call('HSET', KEYS[1], 'bucket', string.format('%.17g', left), 'bucket_at_ms', whole(now_ms),
    'term', ARGV[2], 'clock_ms', whole(clock_ms), 'over', whole(over), unpack(ARGV, 5))
redis.call('SET', KEYS[4], ARGV[4])
return { 'stepped', over }
