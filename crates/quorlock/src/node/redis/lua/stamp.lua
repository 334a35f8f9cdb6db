-- Raises the name's counter to ARGV[2] if the name holds the token and the counter is below.
-- 1 raised, 0 gone, -1 taken, else the counter as text.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
if type(stored) ~= 'string' or string.sub(stored, 1, 32) ~= ARGV[1] then return -1 end
local fence = 'quorlock:fence:' .. KEYS[1]
local counter = tonumber(redis.call('ZSCORE', fence, 'f') or nil)
if counter and counter >= tonumber(ARGV[2]) then return string.format('%.0f', counter) end
redis.call('ZADD', fence, ARGV[2], 'f')
local label = string.match(stored, '^%x+ %d+(.*)$') or ''
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. label, 'XX', 'KEEPTTL')
return 1
