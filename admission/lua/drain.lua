-- Drop from a list what Postgres has got, and name what it has not.
-- KEYS[1] {room}:line; KEYS[2] {room}:unsaved as in turns.lua, or {room}:unsaved_entries as in join.lua.
-- ARGV[1] generation, ARGV[2] the leader's term, ARGV[3] how many at the head are saved, ARGV[4] how many to name at most.
-- Answers {'unsaved', item, …}: oldest first, left in place until the next call says they are saved; or {'term'} to a leader
--   whose lease has passed on.
-- Safe under races: items are appended at the tail and only the leader of the latest term drops from the head, since whoever
--   slept meanwhile would drop others than it saved; Postgres takes each once.
if tonumber(ARGV[2]) < number('term') then
    return { 'term' }
end
redis.call('HSET', KEYS[1], 'term', ARGV[2])
redis.call('LTRIM', KEYS[2], tonumber(ARGV[3]), -1)
local answer = redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[4]) - 1)
table.insert(answer, 1, 'unsaved')
return answer
