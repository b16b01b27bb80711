-- Queue a dead letter again, after what waits in its lane. Answers 1, or 0 when it is no dead letter any more.
local dead_letters, untold = unpack(KEYS, 8)
local entry, handle, envelope = unpack(ARGV, 7)

if call('XDEL', dead_letters, entry) == 0 then
  return 0
end
call('ZREM', untold, entry)
local lane = lane_of(handle)
call('INCR', total)
if call('RPUSH', mailboxes .. lane, whole(now_ms()) .. envelope) == 1 then
  admit(handle)
end
return 1
