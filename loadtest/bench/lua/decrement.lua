-- Take one unit, if there is one: the least that a stock in Redis does.
--
-- KEYS[1]: the counter, a string with the units that are left; no lifetime. Answers 1 when a unit was taken, 0 when none is left.
-- Safe under races: one script at a time.
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then
    return 0
end
redis.call('DECR', KEYS[1])
return 1
