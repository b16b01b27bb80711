-- Hand back every lane of a worker that leaves, without counting a failed run, and forget the worker.
local workers = KEYS[8]
local worker = ARGV[7]

for _, handle in ipairs(call('ZREVRANGE', worker_lanes .. worker, 0, -1)) do
  if end_run(lane_of(handle), handle, worker) then
    go_to_the_front(handle)
  end
end
call('DEL', cancels .. worker)
call('ZREM', workers, worker)
return 1
