-- Acknowledge the first messages of lanes that a worker leased, publish their replies and keep what was found in them: all
-- of a lane, or nothing of it when it is fenced. Answers for each lane 1, or 0 when the lease is not the lane's any more.
-- ARGV: worker, number of lanes; then of each lane handle, fence, how many messages were handled, how many replies there
-- are, how many arguments about what was found; then of each lane channel, digest and envelope of each reply, and those
-- arguments. The streams of the replies are in KEYS in the same order.
local outbound_channels = KEYS[8]
local published, worker, count = unpack(ARGV, 7, 9)

local lanes = {}
for position = 1, tonumber(count) do
  lanes[position] = lane_of(ARGV[5 + 5 * position])
end
local owners = call('HMGET', own, unpack(lanes))

-- First what is done once, however often it is asked for: were a server to refuse it, every lane would still be owned.
local now = now_ms()
local verdicts, ended, handles, runs = {}, {}, {}, {}
local acknowledged, stream, said = 0, 9, 10 + 5 * count
for position, lane in ipairs(lanes) do
  local handle, lease_fence, handled, replies, found = unpack(ARGV, 5 + 5 * position, 9 + 5 * position)
  local owner, fence, in_work = read_owner(owners[position])
  local is_ours = owner == worker and fence == lease_fence and not runs[lane] -- the second of two is fenced
  for _ = 1, tonumber(replies) do
    if is_ours then
      local channel, digest, envelope = unpack(ARGV, said, said + 2)
      publish(news, KEYS[stream], outbound_channels, channel, published, digest, envelope, now)
    end
    stream, said = stream + 1, said + 3
  end
  if is_ours then
    keep_met(said, said + found - 1, now)
    handled = math.min(handled, in_work)
    acknowledged = acknowledged + handled
    runs[lane] = { handled, in_work - handled }
    ended[#ended + 1], handles[#handles + 1] = lane, handle
  end
  verdicts[position], said = is_ours and 1 or 0, said + found
end

if #ended > 0 then
  release(worker, ended, handles)
  call('DECRBY', total, acknowledged)
  local pasts = call('HMGET', past, unpack(ended))
  for position, lane in ipairs(ended) do
    local handled, unhandled = unpack(runs[lane])
    if handled > 0 then
      call('LTRIM', mailboxes .. lane, handled, -1)
    end
    if has_more(lane, handles[position], unhandled) then
      if handled > 0 and pasts[position] then
        local _, _, stopped = past_of(lane)
        set_past(lane, 0, 0, math.max(0, stopped - handled), '')
      end
      go_to_the_tail(handles[position])
    end
  end
end
wake_for_ready()
return verdicts
