-- Keeps the name for ARGV[2] ms, never less than before, if it holds the token ARGV[1]. KEYS: the name, its
-- fence counter and, if it may be held shared, the labels of its shared holders. ARGV[4]: `shared` if a shared
-- hold is enough. Answers ARGV[3] done, 0 gone, -1 taken.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
if type(stored) == 'table' then
  -- Another type is another program's value, or shared holders; any other error means that we may not read it.
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  if not KEYS[3] or redis.call('TYPE', KEYS[1]).ok ~= 'zset' or redis.call('EXISTS', KEYS[3]) == 0 then
    return -1
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not ends or tonumber(ends) <= now or ARGV[4] ~= 'shared' then return 0 end
  redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(tonumber(ends), now + ARGV[2] + 1)), ARGV[1])
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', KEYS[1], last)
  redis.call('PEXPIREAT', KEYS[3], last)
else
  if string.sub(stored, 1, 32) ~= ARGV[1] then return -1 end
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
redis.pcall('EXPIRE', KEYS[2], 604800)
return tonumber(ARGV[3])
