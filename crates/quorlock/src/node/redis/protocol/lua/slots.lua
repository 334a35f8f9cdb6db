-- Returns how many slots of a semaphore are recorded, and which are taken. KEYS: the record, then one name
-- for each slot. ARGV: the call id, the number to record if there is none, `1` if it replaces another number.
-- Answers the call id, the recorded number, and a text with `1` for each slot that is taken, `0` for others.
local recorded = tonumber(redis.call('GET', KEYS[1]) or nil)
if not recorded or ARGV[3] == '1' then recorded = tonumber(ARGV[2]) end
redis.call('SET', KEYS[1], recorded, 'EX', 604800)
local taken = {}
for slot = 2, #KEYS do taken[slot - 1] = redis.call('EXISTS', KEYS[slot]) end
return {tonumber(ARGV[1]), recorded, table.concat(taken)}
