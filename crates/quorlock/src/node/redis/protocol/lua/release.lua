-- Frees names that still hold their tokens. KEYS: the key that exists while a client waits, one name for
-- each ARGV, then the keys that flags need, in the order of the flags. ARGV: a token of 32 characters,
-- followed by flags:
--   `+` its fence counter (one key) expires a week from now; losers raise counters, too, and without an
--       expiry names that were never ours would fill the server
--   `-` waiters get no hint
--   `s` it may be held shared (one key: the labels of its shared holders)
--   `!` released by force: its holder must not extend it here or give it back (extend.lua, repair.lua).
--       Until the release has reached the last server, for one longest ttl at most, the holder may extend
--       it elsewhere for another one. 10 s more cover clocks of different rates (two keys: that of the
--       token, and the epoch, which records the longest ttl)
-- One answer each: 1 freed, 2 freed and no client waits for any name, 3 freed and no client waits for this
-- one, 0 gone, -1 taken.
local call, find = redis.pcall, string.find
-- Any other answer than 0 may mean that a client waits.
local no_waiters = call('EXISTS', KEYS[1]) == 0
local extra = #ARGV + 1
local answers = {}
for i = 1, #ARGV do
  local name, token, hints, labels = KEYS[i + 1], ARGV[i], true, nil
  if #token > 32 then
    if find(token, '+', 33, true) then
      extra = extra + 1
      call('EXPIRE', KEYS[extra], 604800)
    end
    hints = not find(token, '-', 33, true)
    if find(token, 's', 33, true) then
      extra = extra + 1
      labels = KEYS[extra]
    end
    if find(token, '!', 33, true) then
      local epoch = call('GET', KEYS[extra + 2])
      local longest = type(epoch) == 'string' and string.match(epoch, '^v2:%x+:%d+:%d+:(%d+):') or 604800000
      call('SET', KEYS[extra + 1], '1', 'PX', string.format('%.0f', 2 * longest + 10000))
      extra = extra + 2
    end
    token = string.sub(token, 1, 32)
  end
  local stored = call('GET', name)
  local freed = 0
  if not stored then
    answers[i] = 0
  elseif stored.err then
    -- Another type is another program's value, or shared holders; any other error means that we may not read it.
    if not find(stored.err, 'WRONGTYPE', 1, true) then
      answers[i] = stored
    elseif not labels or call('TYPE', name).ok ~= 'zset' or call('EXISTS', labels) == 0 then
      answers[i] = -1
    else
      local time = redis.call('TIME')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      -- A hold that has ended is gone, whether it was dropped already or not.
      local ends = tonumber(call('ZSCORE', name, token) or 0)
      local removed = ends > now and call('ZREM', name, token) or 0
      if removed == 1 then call('HDEL', labels, token) end
      for _, ended in ipairs(call('ZRANGEBYSCORE', name, '-inf', now, 'LIMIT', 0, 100)) do
        call('ZREM', name, ended)
        call('HDEL', labels, ended)
      end
      answers[i] = removed
      if removed == 1 and call('EXISTS', name) == 0 then
        freed = 1
      elseif removed == 1 and no_waiters then
        -- Others share it: nothing is free, and no client needs a hint.
        answers[i] = 2
      end
    end
  elseif find(stored, token, 1, true) ~= 1 then
    answers[i] = -1
  else
    freed = call('DEL', name)
    answers[i] = freed
  end
  if freed == 1 then
    if no_waiters then
      answers[i] = 2
    else
      -- How many processes get the hint, and which release it is, so that they try one after the other and
      -- count it once. Waiters for a slot wait for its semaphore.
      local topic = string.match(name, '^quorlock:slot:(.*):%d+$') or name
      local channel = 'quorlock:free:{' .. topic .. '}'
      local subscribers = tonumber(call('PUBSUB', 'NUMSUB', channel)[2]) or 1
      if subscribers == 0 then
        answers[i] = 3
      elseif hints then
        call('PUBLISH', channel, subscribers .. ' ' .. string.sub(token, 1, 8))
      end
    end
  end
end
return answers
