-- Make the lanes of dead workers ready again, in front, each with one more failed run.
-- Answers how many. Bounded per call: a beat must stay short.
local workers = KEYS[8]

local count = 0
for _, worker in ipairs(call('ZRANGEBYSCORE', workers, '-inf', now_ms())) do
  local handles = call('ZREVRANGE', worker_lanes .. worker, 0, REAP_LANES_MAX - count - 1)
  for _, handle in ipairs(handles) do
    survive_worker(lane_of(handle), handle, worker)
  end
  count = count + #handles
  if call('EXISTS', worker_lanes .. worker) == 0 then
    call('ZREM', workers, worker)
    call('DEL', cancels .. worker)
  end
  if count >= REAP_LANES_MAX then
    break
  end
end
return count
