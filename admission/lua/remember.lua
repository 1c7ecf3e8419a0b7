-- Remember who entered, from what Postgres holds, so that nobody enters twice after a loss of Redis.
-- KEYS[1] {room}:line, KEYS[2] {room}:entrants as in join.lua.
-- KEYS[3] {room}:remembered  string, gone after an hour: the entry up to which a loss is made good.
-- ARGV[1] the leader's term, or '' for one entry whose ticket was shown, ARGV[2] the last entry named here, or '' to leave that alone; then two values for each entry:
-- the first 20 bytes of its client_id and its number.
-- Answers {'remembered'}, or {'term'} to a leader whose lease has passed on.
-- Safe under races: it only adds what is true, and keeps what stands there.
if ARGV[1] ~= '' and tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'term') or 0) then
    return { 'term' }
end
for at = 3, #ARGV, 2 do
    redis.call('HSETNX', KEYS[2], ARGV[at], 'e' .. ARGV[at + 1])
end
if ARGV[2] ~= '' then
    redis.call('SET', KEYS[3], ARGV[2], 'EX', 3600)
end
return { 'remembered' }
