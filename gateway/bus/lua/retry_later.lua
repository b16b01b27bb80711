-- Give a lane back after a failed run: the whole lane waits, so that its order holds.
-- Answers 1, or 0 when fenced.
local own, worker_lanes, attempts, delay, wake = unpack(KEYS)
local lane, handle, lease_worker, lease_fence, delay_ms, failure = unpack(ARGV)

local worker, fence = owner_of(own, lane)
if worker ~= lease_worker or fence ~= lease_fence then
  return 0
end
call('HDEL', own, lane)
call('ZREM', worker_lanes, handle)
count_failure(attempts, lane, failure)
call('ZADD', delay, now_ms() + tonumber(delay_ms), handle)
wake_one(wake)
return 1
