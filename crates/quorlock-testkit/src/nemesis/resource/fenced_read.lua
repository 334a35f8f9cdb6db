-- Reads KEYS[1] for a client that shares the lock, if the last write does not have a fence above ARGV[1]; nil if
-- it has. From then on KEYS[2], the highest fence that was seen, keeps older writers out; other readers it does
-- not.
local value = redis.call('GET', KEYS[1])
local written = value and string.match(value, '<(%d+)$')
if written and tonumber(written) > tonumber(ARGV[1]) then return false end
local seen = redis.call('GET', KEYS[2])
if not seen or tonumber(seen) < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
return value or ''
