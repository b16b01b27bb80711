-- Make the lanes of dead workers ready again, in front, each with one more failed run.
-- Answers how many. Bounded per call: a beat must stay short.
local workers, ready, own, attempts, wake = unpack(KEYS)
local worker_lanes_prefix, cancels_prefix, lanes_max = ARGV[1], ARGV[2], tonumber(ARGV[3])

local count = 0
for _, worker in ipairs(call('ZRANGEBYSCORE', workers, '-inf', now_ms())) do
  local worker_lanes = worker_lanes_prefix .. worker
  local handles = call('ZREVRANGE', worker_lanes, 0, lanes_max - count - 1)
  for _, handle in ipairs(handles) do
    local lane = lane_of(handle)
    hand_back(ready, own, lane, handle)
    call('ZREM', worker_lanes, handle)
    count_failure(attempts, lane, 'the worker died')
  end
  count = count + #handles
  if call('EXISTS', worker_lanes) == 0 then
    call('ZREM', workers, worker)
    call('DEL', cancels_prefix .. worker)
  end
  if count >= lanes_max then
    break
  end
end
if count > 0 then
  wake_one(wake)
end
return count
