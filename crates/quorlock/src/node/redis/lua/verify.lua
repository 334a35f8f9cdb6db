-- Reads the epoch, or begins a new one where the server may have forgotten. One that is durable has not, unless it was a
-- replica: it then has the epoch of its primary, and not all that this had answered.
-- ARGV: longest ttl in ms, a fresh nonce, 1 if the server is durable. Answers value, since ms, longest ms, now us.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local old = redis.pcall('GET', KEYS[1])
local old_run, since, longest, nonce
if type(old) == 'string' then
  old_run, since, longest, nonce = string.match(old, '^v1:(%x+):(%d+):(%d+):(%x+)$')
end
local remembers = ARGV[3] == '1' and not string.find(redis.call('INFO', 'replication'), 'second_repl_offset:%d')
if not nonce or (old_run ~= run and not remembers) then
  since, longest, nonce = now, ARGV[1], ARGV[2]
end
-- A clock that was set back since would keep the epoch young until it has caught up.
since, longest = math.min(tonumber(since), now), math.max(tonumber(longest), tonumber(ARGV[1]))
local value = string.format('v1:%s:%.0f:%.0f:%s', run, since, longest, nonce)
if value ~= old then redis.call('SET', KEYS[1], value) end
return {value, since, longest, time[1] * 1000000 + time[2]}
