-- The pending code of a stranger, made from `new_code` if there is none.
-- Answers the code ('' for one who was turned down) and for how many ms it holds, nothing when too many strangers of
-- the channel are pending.
local by_owner, by_code, pending = unpack(KEYS)
local owner, channel, new_code, welcome, name = unpack(ARGV, 1, 5)
local asked_at, ttl_ms, pending_max = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])

local code = call('GET', by_owner)
if code then
  return { code, call('PTTL', by_owner) }
end
local now = now_ms()
call('ZREMRANGEBYSCORE', pending, '-inf', now)
local waiting = 0
for _, other in ipairs(call('ZRANGE', pending, 0, -1)) do
  if string.match(other, '^[^:]*') == channel then
    waiting = waiting + 1
  end
end
if waiting >= pending_max or call('EXISTS', by_code) == 1 then
  return false
end
call('HSET', by_code, 'owner', owner, 'name', name, 'welcome', welcome, 'asked_at', asked_at)
call('PEXPIRE', by_code, ttl_ms)
call('SET', by_owner, new_code, 'PX', ttl_ms)
call('ZADD', pending, now + ttl_ms, owner)
call('PEXPIRE', pending, ttl_ms)
return { new_code, ttl_ms }
