-- Acknowledge the first messages of a leased lane and publish its replies: one step, or nothing when fenced.
-- Answers 1, or 0 when the lease is not the lane's any more.
local mailbox, ready, own, worker_lanes, attempts, total, wake, outbound_channels = unpack(KEYS, 1, 8)
local lane, handle, lease_worker, lease_fence = unpack(ARGV, 1, 4)
local handled, published = tonumber(ARGV[5]), ARGV[6]

local worker, fence, in_work = owner_of(own, lane)
if worker ~= lease_worker or fence ~= lease_fence then
  return 0
end

call('HDEL', own, lane)
call('ZREM', worker_lanes, handle)
handled = math.min(handled, in_work)
if handled > 0 then
  call('LTRIM', mailbox, handled, -1)
  call('DECRBY', total, handled)
  call('HDEL', attempts, lane)
end

-- Behind the fixed ones: a stream for each reply in KEYS; its channel, digest and envelope in ARGV.
local now = now_ms()
for reply = 1, #KEYS - 8 do
  local channel, digest, envelope = unpack(ARGV, 4 + 3 * reply, 6 + 3 * reply)
  publish(KEYS[8 + reply], outbound_channels, channel, published, digest, envelope, now)
end

if call('LLEN', mailbox) > 0 then
  make_ready(ready, wake, handle)
end
return 1
