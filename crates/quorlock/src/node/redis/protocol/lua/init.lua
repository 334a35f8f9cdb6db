-- Begins an epoch that may vote at once. ARGV: longest ttl in ms, a fresh nonce, the number of our
-- database, `d` if the server was found to sync every write, `n` if not.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local old = redis.pcall('GET', KEYS[1])
local longest = tonumber(ARGV[1])
if type(old) == 'string' then
  longest = math.max(longest, tonumber(string.match(old, '^v2:%x+:%d+:%d+:(%d+):%d+:[dn]:%x+$') or 0))
end
redis.call('SET', KEYS[1], string.format('v2:%s:%.0f:%.0f:%.0f:%s:%s:%s', run, now, now, longest, ARGV[3], ARGV[4], ARGV[2]))
return redis.status_reply('OK')
