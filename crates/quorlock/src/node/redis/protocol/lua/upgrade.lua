-- Makes a shared hold exclusive if no other client shares the name. KEYS: the name, its fence counter, the
-- labels of its shared holders, the key of a token that was released by force. ARGV: the token, ttl in ms, the
-- call id, the fence or 0, the label. Answers the call id and 1 if the counter was raised, 0 if not; 0 alone
-- gone, -1 taken.
local call, name, labels, token = redis.call, KEYS[1], KEYS[3], ARGV[1]
local kind = call('TYPE', name).ok
if kind == 'none' then return 0 end
if kind ~= 'zset' or call('EXISTS', labels) == 0 or call('EXISTS', KEYS[4]) == 1 then return -1 end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = call('ZSCORE', name, token)
if not ends or tonumber(ends) <= now then return 0 end
if call('ZCOUNT', name, '(' .. string.format('%.0f', now), '+inf') > 1 then return -1 end
local raised = 1
if tonumber(ARGV[4]) > 0 then raised = call('ZADD', KEYS[2], 'GT', 'CH', ARGV[4], 'f') end
local left = math.max(tonumber(ARGV[2]), tonumber(ends) - now)
call('DEL', name, labels)
call('SET', name, token .. ' ' .. ARGV[4] .. ' ' .. ARGV[5], 'PX', string.format('%.0f', left))
return {tonumber(ARGV[3]), raised}
