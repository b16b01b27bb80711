-- The pending code of a stranger, made from `new_code` if there is none.
-- Answers nothing when too many strangers of the channel are pending.
local by_owner, by_code, pending = unpack(KEYS)
local owner, new_code, ttl_ms, pending_max = unpack(ARGV)

local code = call('GET', by_owner)
if code then
  return code
end
local now = now_ms()
call('ZREMRANGEBYSCORE', pending, '-inf', now)
if call('ZCARD', pending) >= tonumber(pending_max) then
  return false
end
if not call('SET', by_code, owner, 'NX', 'PX', ttl_ms) then
  return false
end
call('SET', by_owner, new_code, 'PX', ttl_ms)
call('ZADD', pending, now + tonumber(ttl_ms), owner)
call('PEXPIRE', pending, ttl_ms)
return new_code
