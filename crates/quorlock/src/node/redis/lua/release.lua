-- Frees each name in KEYS that still holds its token in ARGV. One answer each: 1 freed, 0 gone, -1 taken.
local answers = {}
for i, name in ipairs(KEYS) do
  local stored = redis.pcall('GET', name)
  if stored == false then
    answers[i] = 0
  elseif type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then
    -- Another type is another program's value; any other error says that we may not look.
    answers[i] = stored
  elseif type(stored) ~= 'string' or string.sub(stored, 1, 32) ~= ARGV[i] then
    answers[i] = -1
  else
    answers[i] = redis.pcall('DEL', name)
    redis.pcall('PUBLISH', 'quorlock:free:' .. name, '')
  end
  -- Losers raised the counter, too: without an end, names that were never ours would fill the server.
  redis.pcall('EXPIRE', 'quorlock:fence:' .. name, 604800)
end
return answers
