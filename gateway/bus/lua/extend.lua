-- Take the messages after the `have` first ones of a leased lane into the lease.
-- Answers them; none when fenced or stopped.
local handle, lease_worker, lease_fence = unpack(ARGV, 7, 9)
local have, messages_max = tonumber(ARGV[10]), tonumber(ARGV[11])

local lane = lane_of(handle)
local _, _, stopped = past_of(lane)
if stopped > 0 or not is_owner(lane, lease_worker, lease_fence) then
  return {}
end
local more = call('LRANGE', mailboxes .. lane, have, have + messages_max - 1)
call('HSET', own, lane, written_owner(lease_worker, lease_fence, have + #more))
return more
