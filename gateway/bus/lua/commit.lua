-- Acknowledge the first messages of a leased lane and publish its replies: one step, or nothing when fenced.
-- Answers 1, or 0 when the lease is not the lane's any more.
local outbound_channels = KEYS[8]
local handle, lease_worker, lease_fence = unpack(ARGV, 7, 9)
local handled, published = tonumber(ARGV[10]), ARGV[11]

local lane = lane_of(handle)
local mailbox = mailboxes .. lane
local is_ours, in_work = is_owner(lane, lease_worker, lease_fence)
if not is_ours then
  return 0
end

handled = math.min(handled, in_work)
if handled > 0 then
  call('LTRIM', mailbox, handled, -1)
  call('DECRBY', total, handled)
end

-- Behind the fixed ones: a stream for each reply in KEYS; its channel, digest and envelope in ARGV.
local now = now_ms()
for reply = 1, #KEYS - 8 do
  local channel, digest, envelope = unpack(ARGV, 9 + 3 * reply, 11 + 3 * reply)
  publish(news, KEYS[8 + reply], outbound_channels, channel, published, digest, envelope, now)
end
keep_met(12 + 3 * (#KEYS - 8), now)

if end_run(lane, handle, lease_worker) then
  if handled > 0 then
    local _, _, stopped = past_of(lane)
    set_past(lane, 0, 0, math.max(0, stopped - handled), '')
  end
  go_to_the_tail(handle)
end
wake_for_ready()
return 1
