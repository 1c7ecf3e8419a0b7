-- wrk's script: sends the requests of a feed file (loadtest/bench/feed.py), each with a key of its own where it takes one,
-- and ends with a line of JSON. Arguments after wrk's own: the file, the keys' prefix, rotate or once.
local ffi = require('ffi')
ffi.cdef('typedef struct { long seconds; long nanoseconds; } moment; int clock_gettime(int clock, moment *now);')

local heads, tails, sent, count, prefix, rotate = {}, {}, 0, 0, '', true
local loader
began, ended = 0, 0 -- global: done runs elsewhere and reads them from the thread

local function now()
    local moment = ffi.new('moment')
    ffi.C.clock_gettime(1, moment)
    return tonumber(moment.seconds) + tonumber(moment.nanoseconds) / 1e9
end

function setup(thread)
    loader = thread
end

function init(arguments)
    local file = assert(io.open(arguments[1], 'rb'))
    local text = file:read('*a')
    file:close()
    prefix, rotate = arguments[2], arguments[3] == 'rotate'
    local from = 1
    while from <= #text + 1 do
        local to = text:find('\0', from, true) or #text + 1
        local request = text:sub(from, to - 1)
        local key_from, key_to = request:find('@KEY@', 1, true)
        count = count + 1
        heads[count] = key_from and request:sub(1, key_from - 1) or request
        tails[count] = key_from and request:sub(key_to + 1)
        from = to + 1
    end
end

function request()
    local place = sent % count + 1
    sent = sent + 1
    if sent == 2 then -- the first goes nowhere: wrk asks for one before it begins
        began = now()
    elseif not rotate and sent >= count then
        ended = now() -- wrk itself waits until its time is over
        wrk.thread:stop()
    end
    local tail = tails[place]
    return tail and heads[place] .. prefix .. sent .. tail or heads[place]
end

function done(summary, latency)
    local errors = summary.errors
    local stopped = loader:get('ended')
    io.write(string.format(
        '\n{"answered": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "failed": %d, "lost": %d}\n',
        summary.requests, stopped > 0 and stopped - loader:get('began') or summary.duration / 1e6,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
