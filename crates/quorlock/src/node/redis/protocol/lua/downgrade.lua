-- Makes an exclusive hold shared, for as long as it lasts. KEYS: the name, the labels of its shared holders.
-- ARGV: the token, the call id, the channel of its hints, the highest fence of the hold that is given up: a
-- later upgrade has a higher one; the fence of the hold, because an upgrade that failed has stored another.
-- Answers the call id, 0 gone, -1 taken.
local call, name, labels, token = redis.call, KEYS[1], KEYS[2], ARGV[1]
local kind = call('TYPE', name).ok
if kind == 'none' then return 0 end
if kind == 'zset' then
  if call('EXISTS', labels) == 0 then return -1 end
  return call('ZSCORE', name, token) and tonumber(ARGV[2]) or 0
end
if kind ~= 'string' then return -1 end
local stored = call('GET', name)
if string.sub(stored, 1, 32) ~= token then return -1 end
if tonumber(string.match(stored, '^%x+ (%d+)') or 0) > tonumber(ARGV[4]) then return -1 end
local left = call('PTTL', name)
local time = call('TIME')
local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + left + 1)
call('DEL', name, labels)
call('ZADD', name, ends, token)
call('HSET', labels, token, ARGV[5] .. (string.match(stored, '^%x+ %d+(.*)$') or ''))
call('PEXPIREAT', name, ends)
call('PEXPIREAT', labels, ends)
-- Readers that wait can have it now. The hint is not that of the release, which has the token, nor that of another
-- downgrade of this hold, which has another fence.
local subscribers = tonumber(call('PUBSUB', 'NUMSUB', ARGV[3])[2]) or 1
local hint = string.format('%x', (tonumber(ARGV[5]) or 0) % 4294967296)
if subscribers > 0 then call('PUBLISH', ARGV[3], subscribers .. ' ' .. hint) end
return tonumber(ARGV[2])
