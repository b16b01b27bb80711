-- Put a control command on the control lane. A stop also ends the running turn and drops what waits.
-- Answers 1, or 0 for a message id that was seen before.
local control = KEYS[8]
local handle, envelope, seen, digest = unpack(ARGV, 7, 10)
local is_stop = ARGV[11] == '1'

local now = now_ms()
if is_known(seen, digest, now) then
  return 0
end

local lane = lane_of(handle)
local worker, fence = owner_of(lane)
local dropped = is_stop and stop(lane, handle) or 0

call('XADD', control, 'MAXLEN', '~', CONTROL_REQUESTS_MAX, '*',
  'e', envelope, 'dropped', dropped, 'running', worker and 1 or 0, 'fence', is_stop and fence or 0)
ring(control)
remember(seen, digest, now)
return 1
