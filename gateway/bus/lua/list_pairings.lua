-- The strangers who wait: for each a code and its fields, who asked first stands in front.
local pending = KEYS[1]
local by_owner_prefix, by_code_prefix = unpack(ARGV)

call('ZREMRANGEBYSCORE', pending, '-inf', now_ms())
local found = {}
for _, owner in ipairs(call('ZRANGE', pending, 0, -1)) do
  local code = call('GET', by_owner_prefix .. owner)
  if code and code ~= '' then
    found[#found + 1] = { code, call('HGETALL', by_code_prefix .. code) }
  end
end
return found
