-- Salvage entries that Postgres may not have, before a new generation begins, changing nothing.
-- KEYS[1] {room}:line, KEYS[2] {room}:unsaved_entries as in join.lua, KEYS[3] {room}:remembered as in remember.lua.
-- ARGV[1] how many of the list to leave out, ARGV[2] how many to name at most.
-- Answers {'salvaged', how far this Redis knows who entered, 'entry client_id', …}, oldest first.
-- Safe under races: only the leader salvages, on a Redis whose generation the workers do not serve.
local known = math.max(tonumber(redis.call('HGET', KEYS[1], 'entries') or 0), tonumber(redis.call('GET', KEYS[3]) or 0))
local answer = redis.call('LRANGE', KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1)
table.insert(answer, 1, known)
table.insert(answer, 1, 'salvaged')
return answer
