-- Hand back every lane of a worker that leaves, without counting a failed run, and forget the worker.
local workers, ready, own, wake, worker_lanes, cancels = unpack(KEYS)
local worker = ARGV[1]

for _, handle in ipairs(call('ZREVRANGE', worker_lanes, 0, -1)) do
  hand_back(ready, own, lane_of(handle), handle)
  wake_one(wake)
end
call('DEL', worker_lanes, cancels)
call('ZREM', workers, worker)
return 1
