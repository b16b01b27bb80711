-- Make a worker known. What an earlier process of the same name still owned goes back as after a death.
local workers = KEYS[8]
local worker, lease_ms = ARGV[7], tonumber(ARGV[8])

for _, handle in ipairs(call('ZREVRANGE', worker_lanes .. worker, 0, -1)) do
  survive_worker(lane_of(handle), handle, worker)
end
call('DEL', cancels .. worker)
call('ZADD', workers, now_ms() + lease_ms, worker)
return 1
