-- Give everything a dead consumer read but never finished to another one, and forget the dead one.
-- Answers how many entries; call again while it equals `count`.
local stream = KEYS[1]
local group, dead, heir, count = unpack(ARGV)

local pending = call('XPENDING', stream, group, '-', '+', count, dead)
for _, entry in ipairs(pending) do
  call('XCLAIM', stream, group, heir, 0, entry[1], 'JUSTID')
end
if #pending < tonumber(count) then
  call('XGROUP', 'DELCONSUMER', stream, group, dead)
end
return #pending
