-- Turn down the stranger who was given a code; there is no other for as long as this one would have held.
-- Answers who that is; nothing for a code that nobody waits with.
local by_code, pending = unpack(KEYS)
local by_owner_prefix = ARGV[1]

local owner, taken_by = unpack(call('HMGET', by_code, 'owner', 'taken_by'))
if not owner or taken_by then
  return false
end
call('SET', by_owner_prefix .. owner, '', 'PX', math.max(1, call('PTTL', by_code)))
call('ZREM', pending, owner)
call('DEL', by_code)
return owner
