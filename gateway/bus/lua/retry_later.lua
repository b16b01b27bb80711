-- Give a lane back after a run that came to nothing, to be run again later.
-- Answers 1, or 0 when fenced.
local handle, lease_worker, lease_fence, delay_ms, is_failure, failure = unpack(ARGV, 7)

local lane = lane_of(handle)
if not is_owner(lane, lease_worker, lease_fence) then
  return 0
end
if end_run(lane, handle, lease_worker) then
  if is_failure == '1' then
    count_failure(lane, failure)
  end
  put_off(handle, tonumber(delay_ms))
end
wake_one()
return 1
