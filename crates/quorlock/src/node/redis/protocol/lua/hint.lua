-- Tells those who wait on the channel ARGV[1] that the holder of the token ARGV[2] let go: how many processes hear it,
-- and which release it is. The same words as in release.lua.
local crowd = redis.call('PUBSUB', 'NUMSUB', ARGV[1])
return redis.call('PUBLISH', ARGV[1], (tonumber(crowd[2]) or 1) .. ' ' .. string.sub(ARGV[2], 1, 8))
