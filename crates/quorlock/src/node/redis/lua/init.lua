-- Begins an epoch that is old enough to vote at once. ARGV: longest ttl in ms, a fresh nonce, tolerance in ms.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local old = redis.pcall('GET', KEYS[1])
local longest = tonumber(ARGV[1])
if type(old) == 'string' then
  longest = math.max(longest, tonumber(string.match(old, '^v1:%x+:%d+:(%d+):%x+$') or 0))
end
local since = time[1] * 1000 - longest - tonumber(ARGV[3])
redis.call('SET', KEYS[1], string.format('v1:%s:%.0f:%.0f:%s', run, math.max(since, 0), longest, ARGV[2]))
return redis.status_reply('OK')
