-- Sends a hint to the waiters on the channel ARGV[1]: the holder of the token ARGV[2] released.
-- The message has the number of processes that get it, and which release it is, as in release.lua.
local subscribers = redis.call('PUBSUB', 'NUMSUB', ARGV[1])
return redis.call('PUBLISH', ARGV[1], (tonumber(subscribers[2]) or 1) .. ' ' .. string.sub(ARGV[2], 1, 8))
