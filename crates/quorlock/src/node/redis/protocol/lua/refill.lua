-- Gives a held lock back to a server that does not have it, unless another process took it from its holder here. ARGV: token,
-- ttl in ms, the answer to give if it is done, the value to store, the fence or 0. Else -1, taken.
if redis.call('EXISTS', 'quorlock:taken:' .. ARGV[1]) == 1 then return -1 end
local fence = tonumber(ARGV[5])
if fence > 0 then redis.call('ZADD', 'quorlock:fence:' .. KEYS[1], 'GT', ARGV[5], 'f') end
if not redis.call('SET', KEYS[1], ARGV[4], 'NX', 'PX', ARGV[2]) then return -1 end
return tonumber(ARGV[3])
