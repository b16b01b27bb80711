-- Take the message whose envelope begins with `identity` off its lane.
-- Answers 1 done, 2 its running turn restarts without it, 0 too late.
local handle, identity = unpack(ARGV, 7)

local lane = lane_of(handle)
local mailbox = mailboxes .. lane
local position, message = find(lane, identity)
local _, _, stopped = past_of(lane)
if not position or position < stopped then
  return 0
end
local worker, fence, in_work = owner_of(lane)
if worker and position < in_work then
  call('LSET', mailbox, position, WITHDRAWN)
  cancel(worker, lane, fence, 'restart')
  return 2
end
call('LREM', mailbox, 1, message)
call('DECR', total)
if not worker then
  if call('LLEN', mailbox) == 0 then
    forget(lane, handle)
  elseif position == 0 then
    call('HDEL', past, lane) -- the runs that failed were its own
  end
end
return 1
