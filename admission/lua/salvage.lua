-- Salvage what this Redis knows of a room before a new generation begins, changing nothing.
-- KEYS[1] {room}:line, KEYS[2] {room}:unsaved: as in turns.lua.
-- Answers {'salvaged', generation, entries, numbers}, 0 for what is not there, then each unsaved claim.
-- Safe under races: only the leader salvages; verbs of the old generation are refused once Postgres holds the new one.
local held = redis.call('HMGET', KEYS[1], 'generation', 'entries', 'numbers')
local answer = { 'salvaged', tonumber(held[1] or 0), tonumber(held[2] or 0), tonumber(held[3] or 0) }
for _, claim in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    answer[#answer + 1] = claim
end
return answer
