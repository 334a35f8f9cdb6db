-- Returns how many slots of a semaphore are recorded, and which are taken. KEYS: the record, then one name
-- for each slot. ARGV: the call id, the number of slots that the client counts, what to record: `n` nothing,
-- `i` the number if there is none, `r` the number, `d` that a client which counts it was refused.
-- The record is the number; after a refusal also the number of the client and the time in seconds.
-- Answers the call id, the recorded number, a text with `1` for each slot that is taken, `0` for others, and,
-- if a client was refused, its number and how many seconds ago that was.
local stored = redis.call('GET', KEYS[1]) or ''
local recorded, refused, at = string.match(stored, '^(%d+) (%d+) (%d+)$')
recorded = recorded or string.match(stored, '^%d+$')
-- A record that no client wrote counts as none.
if recorded and (tonumber(recorded) < 1 or tonumber(recorded) > 1024) then recorded, refused = nil, nil end
local now = redis.call('TIME')[1]
if ARGV[3] == 'r' or (ARGV[3] == 'i' and not recorded) then
  recorded, refused = ARGV[2], nil
elseif ARGV[3] == 'd' and recorded then
  refused, at = ARGV[2], now
end
if ARGV[3] ~= 'n' and recorded then
  redis.call('SET', KEYS[1], refused and table.concat({recorded, refused, at}, ' ') or recorded, 'EX', 604800)
end
local taken = {}
for slot = 2, #KEYS do taken[slot - 1] = redis.call('EXISTS', KEYS[slot]) end
local answers = {tonumber(ARGV[1]), tonumber(recorded or 0), table.concat(taken)}
if refused then
  answers[4] = tonumber(refused)
  answers[5] = math.max(0, now - at)
end
return answers
