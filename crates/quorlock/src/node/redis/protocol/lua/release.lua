-- Frees each name in KEYS that still holds its token, the first 32 characters of its ARGV. One answer each: 1 freed,
-- 2 freed and nobody waits for any name, 3 freed and nobody waits for this one, 0 gone, -1 taken. Behind a token may
-- stand marks: `+`, the name's counter is kept for a week from now (losers raise counters, too, and without an end names
-- that were never ours would fill the server); `-`, those who wait are not told; `!`, the holder did not let go itself, and
-- must not give the lock back to this server (refill.lua) for as long as any lock may last.
local call, find = redis.pcall, string.find
-- Hints are for those who wait; any other answer than 0 may mean that somebody does.
local nobody = call('EXISTS', 'quorlock:waiting') == 0
local answers = {}
for i = 1, #KEYS do
  local name, token, tell = KEYS[i], ARGV[i], true
  if #token > 32 then
    if find(token, '+', 33, true) then call('EXPIRE', 'quorlock:fence:' .. name, 604800) end
    tell = not find(token, '-', 33, true)
    if find(token, '!', 33, true) then
      local epoch = call('GET', 'quorlock:epoch')
      local longest = type(epoch) == 'string' and string.match(epoch, '^v2:%x+:%d+:%d+:(%d+):') or 604800000
      call('SET', 'quorlock:taken:' .. string.sub(token, 1, 32), '1', 'PX', longest)
    end
    token = string.sub(token, 1, 32)
  end
  local stored = call('GET', name)
  if not stored then
    answers[i] = 0
  elseif stored.err then
    -- Another type is another program's value; any other error says that we may not look.
    answers[i] = find(stored.err, 'WRONGTYPE', 1, true) and -1 or stored
  elseif find(stored, token, 1, true) ~= 1 then
    answers[i] = -1
  else
    local freed = call('DEL', name)
    answers[i] = freed
    if freed == 1 and nobody then
      answers[i] = 2
    elseif freed == 1 then
      -- How many processes hear it, and which release it is, so that they can take turns and hear it once.
      local channel = 'quorlock:free:' .. name
      local crowd = tonumber(call('PUBSUB', 'NUMSUB', channel)[2]) or 1
      if crowd == 0 then
        answers[i] = 3
      elseif tell then
        call('PUBLISH', channel, crowd .. ' ' .. string.sub(token, 1, 8))
      end
    end
  end
end
return answers
