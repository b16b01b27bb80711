-- Take a lane from a worker that does not react: the messages of its turn are stopped, whoever claims them next.
-- Answers 1, or 0 when the turn with this fence does not own the lane.
local handle, lease_fence = unpack(ARGV, 7)

local lane = lane_of(handle)
local worker, fence, in_work = owner_of(lane)
if not worker or fence ~= lease_fence then
  return 0
end
local failures, restarts, _, failure = past_of(lane)
set_past(lane, failures, restarts, in_work, failure)
if end_run(lane, handle, worker) then
  go_to_the_front(handle)
end
return 1
