-- Gives a held lock back to a server that does not have it, unless it was released by force here.
-- KEYS: the name, its fence counter, the key of a token that was released by force, the labels of the shared
-- holders. ARGV: ttl in ms, the answer to give if it is done, the value to store, the fence or 0. Else -1, taken.
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
if tonumber(ARGV[4]) > 0 then redis.call('ZADD', KEYS[2], 'GT', ARGV[4], 'f') end
if redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[1]) then return tonumber(ARGV[2]) end
-- Where an upgrade was not executed, the hold is still shared, and becomes exclusive if no other client shares.
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' or redis.call('EXISTS', KEYS[4]) == 0 then return -1 end
local time = redis.call('TIME')
local now = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local readers = redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, 2)
if #readers ~= 1 or readers[1] ~= string.sub(ARGV[3], 1, 32) then return -1 end
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[1])
return tonumber(ARGV[2])
