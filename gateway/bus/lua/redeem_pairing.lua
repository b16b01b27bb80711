-- Take a pairing code: the stranger it was given to, once.
local by_code = KEYS[1]
local of_prefix, pending_prefix = unpack(ARGV)

local owner = call('GET', by_code)
if owner then
  call('DEL', by_code, of_prefix .. owner)
  call('ZREM', pending_prefix .. string.match(owner, '^[^:]*'), owner)
end
return owner
