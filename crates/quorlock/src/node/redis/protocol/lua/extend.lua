-- Keeps the name for ARGV[2] ms, never less than before, if it holds the token and was not released by
-- force here. KEYS: the name, its fence counter, the key of a token that was released by force.
-- Answers ARGV[3] done, 0 gone, -1 taken.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
-- Another type is another program's value; any other error means that we may not read it.
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
if type(stored) ~= 'string' or string.sub(stored, 1, 32) ~= ARGV[1] then return -1 end
-- A vote of the lock may arrive after its forced release: it is a plain SET.
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
redis.pcall('EXPIRE', KEYS[2], 604800)
return tonumber(ARGV[3])
