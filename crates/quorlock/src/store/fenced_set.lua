-- Writes ARGV[2] to KEYS[1] if no fence above ARGV[1] was seen in KEYS[2]. Answers 1 written, else the
-- higher fence as text.
local seen = redis.call('GET', KEYS[2])
if seen and tonumber(seen) > tonumber(ARGV[1]) then return seen end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
