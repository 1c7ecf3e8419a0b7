-- Drop claims that Postgres has got, and name those it has not.
-- KEYS[1] {room}:line, KEYS[2] {room}:unsaved: as in claim.lua.
-- ARGV[1] generation, ARGV[2] how many at the head are saved.
-- Answers {'unsaved', claim, …}: at most 1,000, oldest first, left in place until the next call says they are saved.
-- Safe under races: claims are appended at the tail and only the leader drops from the head; Postgres takes each once.
redis.call('LTRIM', KEYS[2], tonumber(ARGV[2]), -1)
local answer = redis.call('LRANGE', KEYS[2], 0, 999)
table.insert(answer, 1, 'unsaved')
return answer
