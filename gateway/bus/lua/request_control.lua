-- Put a control command on the control lane. A stop also ends the running turn and drops what waits.
-- Answers {verdict, ms}; verdict 1 accepted, 0 for a message id that was seen before, -3 its author gives commands too
-- fast: `ms` until the author may go on. What is not taken costs nothing, and neither does a stop that finds what to
-- stop: there was a message for it.
local control = KEYS[8]
local handle, envelope, seen, digest = unpack(ARGV, 7, 10)
local is_stop = ARGV[11] == '1'
local pace_of_author, per_minute, burst = ARGV[12], tonumber(ARGV[13]), tonumber(ARGV[14])

local now = now_ms()
if is_known(seen, digest, now) then
  return { 0, 0 }
end

local lane = lane_of(handle)
local worker, fence = owner_of(lane)
local is_needed = is_stop and finds_what_to_stop(lane)

if per_minute > 0 and not is_needed then
  local most = per_minute + burst
  local spare = is_stop and 0 or math.min(STOPS_KEPT, most - 1)
  local wait_ms = spend(pace_of_author, per_minute / 60, most, spare, now)
  if wait_ms > 0 then
    return { -3, wait_ms }
  end
end
local dropped = is_stop and stop(lane, handle) or 0

call('XADD', control, 'MAXLEN', '~', CONTROL_REQUESTS_MAX, '*',
  'e', envelope, 'dropped', dropped, 'running', worker and 1 or 0, 'fence', is_stop and fence or 0)
ring(news, control)
remember(seen, digest, now)
return { 1, 0 }
