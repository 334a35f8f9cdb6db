-- Keeps the name for ARGV[2] ms, never less than before, if it holds the token ARGV[1] and was not released by
-- force here. KEYS: the name, its fence counter, the key of a token that was released by force and, if it may
-- be held shared, the labels of its shared holders. ARGV[4]: `shared` if a shared hold is enough.
-- Answers ARGV[3] done, 0 gone, -1 taken.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
local ends, now
if type(stored) == 'table' then
  -- Another type is another program's value, or shared holders; any other error means that we may not read it.
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  if not KEYS[4] or redis.call('TYPE', KEYS[1]).ok ~= 'zset' or redis.call('EXISTS', KEYS[4]) == 0 then
    return -1
  end
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  ends = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
  if ends <= now or ARGV[4] ~= 'shared' then return 0 end
elseif string.sub(stored, 1, 32) ~= ARGV[1] then
  return -1
end
-- A vote of the lock may arrive after its forced release.
if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
if ends then
  redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(ends, now + ARGV[2] + 1)), ARGV[1])
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', KEYS[1], last)
  redis.call('PEXPIREAT', KEYS[4], last)
elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.pcall('EXPIRE', KEYS[2], 604800)
return tonumber(ARGV[3])
