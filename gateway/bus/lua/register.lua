-- Make a worker known. What an earlier process of the same name still owned goes back as after a death.
local workers, ready, own, attempts, wake, worker_lanes, cancels = unpack(KEYS)
local worker, lease_ms = ARGV[1], tonumber(ARGV[2])

for _, handle in ipairs(call('ZREVRANGE', worker_lanes, 0, -1)) do
  local lane = lane_of(handle)
  hand_back(ready, own, lane, handle)
  count_failure(attempts, lane, 'the worker died')
  wake_one(wake)
end
call('DEL', worker_lanes, cancels)
call('ZADD', workers, now_ms() + lease_ms, worker)
return 1
