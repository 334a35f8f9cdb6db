-- Returns `redis` without its protection, the environment of scripts, the function that runs a script, and
-- `error_reply` of Redis 6.2 and of later versions.
local sha1hex, text_of, handler = ...
local raw_error, raw_pcall, raw_xpcall = error, pcall, xpcall

local function refuse_change()
  raw_error('Attempt to modify a readonly table', 2)
end

local function readonly(content)
  return setmetatable({}, {__index = content, __newindex = refuse_change})
end

-- A caught error is its text.
local function caught(is_done, raised, ...)
  if is_done then return true, raised, ... end
  return false, text_of(raised)
end

local function single_field(name)
  return function(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
      return {err = 'ERR wrong number or type of arguments'}
    end
    return {[name] = text}
  end
end

local function error_reply(...)
  local reply = single_field('err')(...)
  local text = ...
  if reply.err == text then
    if string.sub(text, 1, 1) == '-' then text = string.sub(text, 2) end
    if not string.find(text, ' ', 1, true) then text = 'ERR ' .. text end
    reply.err = text
  end
  return reply
end

-- They go on at random from call to call, and from world to world.
math.random, math.randomseed = nil, nil

local redis = {sha1hex = sha1hex, status_reply = single_field('ok')}
local globals = {
  redis = readonly(redis), string = readonly(string), table = readonly(table), math = readonly(math),
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
  pcall = function(...) return caught(raw_pcall(...)) end,
}
setmetatable(globals, {__index = function(_, name)
  raw_error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end})

local function run(script, reply, keys, arguments)
  redis.error_reply, globals.KEYS, globals.ARGV = reply, keys, arguments
  return raw_xpcall(script, handler)
end
return redis, readonly(globals), run, single_field('err'), error_reply
