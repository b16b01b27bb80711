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
local mailbox = mailboxes .. lane
local worker, fence, in_work = owner_of(lane)
local dropped = 0
if is_stop then
  local failures, restarts, stopped, failure = past_of(lane)
  local length = call('LLEN', mailbox)
  local kept = in_work or stopped
  dropped = length - kept
  if dropped > 0 then
    call('RPOP', mailbox, dropped)
    call('DECRBY', total, dropped)
  end
  if worker then
    -- Whoever runs these messages next, after a death or a revoke, knows that they were stopped.
    set_past(lane, failures, restarts, in_work, failure)
    cancel(worker, lane, fence, 'stop')
  elseif length > 0 and kept == 0 then
    forget(lane, handle)
  end
end

call('XADD', control, 'MAXLEN', '~', CONTROL_REQUESTS_MAX, '*',
  'e', envelope, 'dropped', dropped, 'running', worker and 1 or 0, 'fence', is_stop and fence or 0)
ring(control)
remember(seen, digest, now)
return 1
