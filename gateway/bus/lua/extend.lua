-- Take the messages behind the `have` first ones of a leased lane into the lease.
-- Answers them; none when fenced.
local mailbox, own = unpack(KEYS)
local lane, lease_worker, lease_fence, have = unpack(ARGV)

local worker, fence = owner_of(own, lane)
if worker ~= lease_worker or fence ~= lease_fence then
  return {}
end
local more = call('LRANGE', mailbox, have, -1)
call('HSET', own, lane, owner_text(worker, fence, have + #more))
return more
