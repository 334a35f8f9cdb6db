-- Reads the epoch; begins one if the server may have forgotten, and records a longer ttl, if requested.
-- ARGV: 1 the longest ttl in ms that other nodes have recorded, 0 if none is to be recorded; 2 that of an
-- epoch to begin, 0 if none is to be begun, `-` if nothing is to be written at all; 3 a fresh nonce; 4 `1`
-- if the server was found to sync every write, `-` if it was found not to, `0` if that was not checked;
-- 5 the number of our database; 6 `1` if the server is known to have forgotten; 7 twice the clock tolerance
-- in ms. Answers value, began, votes from, longest, all in ms, and now in microseconds; an empty value if
-- there is no epoch.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local recorded, to_begin, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2]) or 0, tonumber(ARGV[7])
local old = redis.pcall('GET', KEYS[1])
local old_run, began, votes, longest, db, durable, nonce
if type(old) == 'string' then
  old_run, began, votes, longest, db, durable, nonce =
    string.match(old, '^v2:(%x+):(%d+):(%d+):(%d+):(%d+):([dn]):(%x+)$')
end
began, votes, longest = tonumber(began), tonumber(votes), tonumber(longest)
-- A server that synced every write remembers what it knew in its last run, unless it was a replica: it then
-- has the epoch of its primary, and not all that the primary had answered.
local same_run = old_run == run
local remembers = nonce and db == ARGV[5] and ARGV[6] ~= '1'
if remembers and not same_run then
  remembers = ARGV[4] == '1' and durable == 'd'
    and not string.find(redis.call('INFO', 'replication'), 'second_repl_offset:%d')
end
if not remembers then
  if to_begin == 0 then return {'', 0, 0, 0, micros} end
  -- Locks of up to what was recorded before may be forgotten.
  longest = math.max(to_begin, recorded, longest or 0)
  began, votes, nonce, durable = now, now + longest + tolerance, ARGV[3], 'n'
end
-- A clock that was set back since would keep the epoch young until it has caught up.
began, votes = math.min(began, now), math.min(votes, now + longest + tolerance)
if recorded > longest then
  longest = recorded
  votes = math.max(votes, began + longest + tolerance)
end
if ARGV[4] == '-' then
  durable = 'n'
elseif ARGV[4] == '1' and durable == 'n' then
  -- While the file is being rewritten it may not hold everything yet.
  local state = redis.call('INFO', 'persistence')
  if not string.find(state, 'aof_rewrite_in_progress:1') and not string.find(state, 'aof_rewrite_scheduled:1') then
    durable = 'd'
  end
end
local value = string.format('v2:%s:%.0f:%.0f:%.0f:%s:%s:%s', run, began, votes, longest, ARGV[5], durable, nonce)
-- A client that only inspects changes nothing.
if ARGV[2] == '-' then
  value = old
elseif value ~= old then
  redis.call('SET', KEYS[1], value)
end
return {value, began, votes, longest, micros}
