-- Gives a held lock back to a server that does not have it, unless it was released by force here.
-- KEYS: the name, its fence counter, the key of a token that was released by force. ARGV: ttl in ms, the
-- answer to give if it is done, the value to store, the fence or 0. Else -1, taken.
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
if tonumber(ARGV[4]) > 0 then redis.call('ZADD', KEYS[2], 'GT', ARGV[4], 'f') end
if not redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[1]) then return -1 end
return tonumber(ARGV[2])
