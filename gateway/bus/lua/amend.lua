-- Put an edited message in the place of the one whose envelope begins with `identity`.
-- Answers 1 changed, 2 its running turn restarts, 0 too late. A turn is restarted once per message.
local handle, identity, envelope, seen, restarted = unpack(ARGV, 7)

local lane = lane_of(handle)
local position, message, suffix = find(lane, identity)
local _, _, stopped = past_of(lane)
if not position or position < stopped then
  return 0
end
local now = now_ms()
keep_met(12, #ARGV, now)
-- What is tried again keeps the id of its try: the one it came with is answered, with an apology.
local named = string.sub(envelope, 1, #identity - 2) .. suffix .. string.sub(envelope, #identity - 1)
local changed = string.sub(message, 1, 13) .. named
local worker, fence, in_work = owner_of(lane)
if not worker or position >= in_work then
  call('LSET', mailboxes .. lane, position, changed)
  return 1
end
local has_restarted = is_known(seen, restarted, now)
if message == changed then
  return has_restarted and 2 or 1
end
if has_restarted then
  return 0
end
remember(seen, restarted, now)
call('LSET', mailboxes .. lane, position, changed)
cancel(worker, lane, fence, 'restart')
return 2
