-- Adds a shared holder to the name. KEYS: the name, its fence counter, the labels of its shared holders, the
-- key that exists while a client waits to hold the name exclusively, the key of a token that was released by
-- force. ARGV: the token, ttl in ms, the call id, the fence or 0, the label, `v` for a vote or `r` for a
-- repair. Answers the call id and 1 if the counter was raised, 0 if not; -1 taken.
-- Shared holders are a sorted set, token by end time, so that `SET NX` of any client is refused.
local call, name, labels, token = redis.call, KEYS[1], KEYS[3], ARGV[1]
local kind = call('TYPE', name).ok
local is_ours = kind == 'zset' and call('EXISTS', labels) == 1
if kind ~= 'none' and not is_ours then return -1 end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, ended in ipairs(call('ZRANGEBYSCORE', name, '-inf', now, 'LIMIT', 0, 100)) do
  call('ZREM', name, ended)
  call('HDEL', labels, ended)
end
-- A vote that arrives twice neither ends what was extended since, nor takes back its stamp.
if call('EXISTS', ARGV[6] == 'r' and KEYS[5] or KEYS[4]) == 1 or call('ZSCORE', name, token) then return -1 end
if call('ZCARD', name) >= 10000 then return redis.error_reply('ERR 10000 clients share the name already') end
local raised = 1
if tonumber(ARGV[4]) > 0 then raised = call('ZADD', KEYS[2], 'GT', 'CH', ARGV[4], 'f') end
-- First what may fail, because something else is stored there: a name without an end would stay for ever.
call('HSET', labels, token, ARGV[4] .. ' ' .. ARGV[5])
-- A millisecond more, because `now` is rounded down.
call('ZADD', name, string.format('%.0f', now + ARGV[2] + 1), token)
local last = call('ZRANGE', name, -1, -1, 'WITHSCORES')[2]
call('PEXPIREAT', name, last)
call('PEXPIREAT', labels, last)
return {tonumber(ARGV[3]), raised}
