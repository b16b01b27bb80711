-- Give a lane back to start again at once, without counting a failed run. Answers 1, or 0 when fenced.
-- In front, but not for ever: an author who edits again and again must not keep the worker from everybody else.
local handle, lease_worker, lease_fence = unpack(ARGV, 7)

local lane = lane_of(handle)
if not is_owner(lane, lease_worker, lease_fence) then
  return 0
end
if end_run(lane, handle, lease_worker) then
  local failures, restarts, stopped, failure = past_of(lane)
  set_past(lane, failures, restarts + 1, stopped, failure)
  if restarts < RESTARTS_IN_FRONT_MAX then
    go_to_the_front(handle)
  else
    go_to_the_tail(handle)
  end
end
wake_for_ready()
return 1
