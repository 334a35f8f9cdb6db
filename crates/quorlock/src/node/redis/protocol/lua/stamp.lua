-- Raises the fence counter to at least ARGV[2], strictly above what it was, if the name holds the token.
-- KEYS: the name, its fence counter. Answers ARGV[3] and the number it was raised to as text, 0 gone, -1
-- taken.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
-- Another type is another program's value; any other error means that we may not read it.
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
if type(stored) ~= 'string' or string.sub(stored, 1, 32) ~= ARGV[1] then return -1 end
local to = tonumber(ARGV[2])
local counter = tonumber(redis.call('ZSCORE', KEYS[2], 'f') or nil)
if counter and counter >= to then to = counter + 1 end
if to >= 9007199254740992 then return redis.error_reply('ERR the fence counter of this name is used up') end
local text = string.format('%.0f', to)
redis.call('ZADD', KEYS[2], text, 'f')
local label = string.match(stored, '^%x+ %d+(.*)$') or ''
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. text .. label, 'XX', 'KEEPTTL')
return {tonumber(ARGV[3]), text}
