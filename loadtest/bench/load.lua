-- wrk's script: sends the requests of a feed file (loadtest/bench/feed.py), each with a key of its own where it takes one,
-- and ends with a line of JSON. Arguments after wrk's own: the file, the keys' prefix, rotate or once.
local heads, tails, sent, count, prefix, rotate = {}, {}, 0, 0, '', true

function init(arguments)
    local file = assert(io.open(arguments[1], 'rb'))
    local text = file:read('*a')
    file:close()
    prefix, rotate = arguments[2], arguments[3] == 'rotate'
    local from = 1
    while from <= #text + 1 do
        local to = text:find('\0', from, true) or #text + 1
        local key_from, key_to = text:find('@KEY@', from, true)
        count = count + 1
        if key_from and key_from < to then
            heads[count], tails[count] = text:sub(from, key_from - 1), text:sub(key_to + 1, to - 1)
        else
            heads[count], tails[count] = text:sub(from, to - 1), false
        end
        from = to + 1
    end
end

function request()
    local place = sent % count + 1
    sent = sent + 1
    if not rotate and sent >= count then
        wrk.thread:stop()
    end
    local tail = tails[place]
    if tail then
        return heads[place] .. prefix .. sent .. tail
    end
    return heads[place]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\n{"answered": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "failed": %d, "lost": %d}\n',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
