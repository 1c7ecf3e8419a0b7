-- Close the entries: no entry is issued after this, so that the draw counts all of them.
-- KEYS[1] {room}:line  hash.
-- ARGV[1] generation.
-- Answers {'closed', entries}, or {'open'} while the room's opening is still ahead.
-- Safe under races: join.lua looks at the same field in the same Redis; closing twice is closing once.
local now_in = phase()
if line.entries_closed == '0' and (now_in == 'draft' or now_in == 'prequeue') then
    return { 'open' }
end
redis.call('HSET', KEYS[1], 'entries_closed', '1')
return { 'closed', number('entries') }
