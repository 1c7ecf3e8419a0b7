-- Extend a called, unclaimed turn by one turn's length, as often as the room allows; call a missed one once more within its grace.
-- KEYS: as in turns.lua.
-- ARGV[1] generation, ARGV[2] ticket id, ARGV[3] place, ARGV[4] within how many ms of the last an extension is that one again.
-- Answers {'extended'}, {'limit'} when all extensions are used, {'claimed'} for a turn that was used, {'early', called so far},
--   {'missed'}, or {'closed'} after the sale.
-- Safe under races: a double click, or a repeat after a lost answer, finds the extension just made and adds none. An extended
--   turn is an open turn for the controller, and claim.lua asks rate and cap all the same.
if redis.call('HEXISTS', KEYS[3], ARGV[2]) == 1 then
    return { 'claimed' }
end
local now_in = phase()
if now_in == 'closed' then
    return { 'closed' }
end
local place = tonumber(ARGV[3])
local called = math.floor(serving())
if lets_pass() or (now_in == 'open' and line.dormant == '1' and place > called) then
    return { 'extended' }
end
if place > called then
    return { 'early', called }
end
local ends_ms = turn_ends_ms(ARGV[2], place)
if not ends_ms then
    return { call_again(ARGV[2], place) and 'extended' or 'missed' }
end
local extensions, extended_at_ms, again = turn_of(ARGV[2])
if now_ms - extended_at_ms < tonumber(ARGV[4]) then
    return { 'extended' }
end
if extensions >= tonumber(line.extensions_max or 0) then
    return { 'limit' }
end
keep_turn(ARGV[2], place, ends_ms + number('turn_ms'))
note_turn(ARGV[2], extensions + 1, now_ms, again)
return { 'extended' }
