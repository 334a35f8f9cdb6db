-- Raises the fence counter to at least ARGV[2], strictly above what it was, if the name holds the token.
-- KEYS: the name, its fence counter, the labels of its shared holders. Answers ARGV[3] and the number it was
-- raised to as text, 0 gone, -1 taken.
local stored = redis.pcall('GET', KEYS[1])
if stored == false then return 0 end
local is_shared = false
if type(stored) == 'table' then
  -- Another type is another program's value, or shared holders; any other error means that we may not read it.
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  if redis.call('TYPE', KEYS[1]).ok ~= 'zset' or redis.call('EXISTS', KEYS[3]) == 0 then return -1 end
  local time = redis.call('TIME')
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not ends or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then return 0 end
  is_shared = true
  stored = ARGV[1] .. ' ' .. (redis.call('HGET', KEYS[3], ARGV[1]) or '0')
elseif string.sub(stored, 1, 32) ~= ARGV[1] then
  return -1
end
local to = tonumber(ARGV[2])
local counter = tonumber(redis.call('ZSCORE', KEYS[2], 'f') or nil)
if counter and counter >= to then to = counter + 1 end
if to >= 9007199254740992 then return redis.error_reply('ERR the fence counter of this name is used up') end
local text = string.format('%.0f', to)
redis.call('ZADD', KEYS[2], text, 'f')
local label = string.match(stored, '^%x+ %d+(.*)$') or ''
if is_shared then
  redis.call('HSET', KEYS[3], ARGV[1], text .. label)
else
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. text .. label, 'XX', 'KEEPTTL')
end
return {tonumber(ARGV[3]), text}
