-- Tell how busy one worker of the stock is, and hear whether it is this worker's turn to tell the rooms.
-- KEYS[1] {stock}:load    hash worker -> 'Unix ms, queue share, latency ms or -'; gone after a minute of silence.
-- KEYS[2] {stock}:teller  string, the worker whose turn it is; for a little less than a second.
-- ARGV[1] worker, ARGV[2] how full its fullest lane is (0 to 1), ARGV[3] how slow its recent reserves were (ms) or '-',
-- ARGV[4] for how long (ms) a word of load counts, ARGV[5] how long (ms) a turn keeps the others silent.
-- Answers {'turn', the fullest queue share, the slowest latency or '-'} over all workers, or {'told'} where another has the turn.
-- Safe under races: one script hands out the turn; two that tell at once would tell the same.
local now = redis.call('TIME')
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now_ms, ARGV[2], ARGV[3]))
redis.call('PEXPIRE', KEYS[1], 60000)
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[5]) then
    return { 'told' }
end
local fullest, slowest = 0, -1
local loads = redis.call('HGETALL', KEYS[1])
for at = 1, #loads, 2 do
    local told_ms, queue_share, latency_ms = string.match(loads[at + 1], '^(%S+) (%S+) (%S+)$')
    if tonumber(told_ms) < now_ms - tonumber(ARGV[4]) then
        redis.call('HDEL', KEYS[1], loads[at])
    else
        fullest = math.max(fullest, tonumber(queue_share))
        slowest = math.max(slowest, tonumber(latency_ms) or -1)
    end
end
return { 'turn', string.format('%.4f', fullest), slowest < 0 and '-' or string.format('%.1f', slowest) }
