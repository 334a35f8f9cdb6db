-- Records that clients may use a ttl of up to ARGV[1] ms from now on. The server goes on voting: every
-- lock that it may have forgotten was taken with a shorter ttl. So it must vote already, where ARGV[2] is
-- the longest ttl in ms that any node has recorded. ARGV[3]: twice the clock tolerance in ms. Answers OK,
-- or how many ms to wait.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local old = redis.call('GET', KEYS[1])
if not old then return redis.error_reply('NOEPOCH') end
local head, began, votes, longest, tail = string.match(old, '^(v2:%x+):(%d+):(%d+):(%d+):(%d+:[dn]:%x+)$')
if not head or head ~= 'v2:' .. run then return redis.error_reply('NOEPOCH') end
began, votes, longest = tonumber(began), tonumber(votes), tonumber(longest)
if tonumber(ARGV[2]) > longest then votes = math.max(votes, began + tonumber(ARGV[2]) + tonumber(ARGV[3])) end
if votes > now then return votes - now end
if tonumber(ARGV[1]) > longest then
  redis.call('SET', KEYS[1], string.format('%s:%.0f:%.0f:%s:%s', head, began, votes, ARGV[1], tail))
end
return redis.status_reply('OK')
