-- Returns up to ARGV[2] shared holders of a name, those that end first before the others, each as it would be
-- stored alone. KEYS: the name, the labels of its shared holders. ARGV: the call id, the number. Answers the
-- call id and the holders, or the call id alone if something else is stored.
local answers = {tonumber(ARGV[1])}
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' or redis.call('EXISTS', KEYS[2]) == 0 then return answers end
local time = redis.call('TIME')
local now = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
for _, token in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[2])) do
  answers[#answers + 1] = token .. ' ' .. (redis.call('HGET', KEYS[2], token) or '0 ? 0 0')
end
return answers
