-- Take or renew a named lease. `over` names a holder that is known to be dead.
-- Answers nothing when it is ours now, else the present holder.
local lease = KEYS[1]
local holder, ttl_ms, over = unpack(ARGV)

local present = call('GET', lease)
if present and present ~= holder and present ~= over then
  return present
end
call('SET', lease, holder, 'PX', ttl_ms)
return false
