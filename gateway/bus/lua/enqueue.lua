-- Deduplicate and append one message: both or neither.
-- Answers {verdict, waiting, running, ms}; verdict 1 accepted, 0 duplicate, -1 lane full, -2 queue full, -3 its author
-- writes too fast: `ms` until that is over, -4 judged by a projection that is not shown any more. What is not taken
-- costs nothing. With what is on the bus the position of its platform moves, if one came along, and what was found in its
-- lane is kept.
local handle, envelope, seen, digest = unpack(ARGV, 7, 10)
local settle_ms, interrupts = tonumber(ARGV[11]), ARGV[12] == '1'
local lane_max, queue_max = tonumber(ARGV[13]), tonumber(ARGV[14])
local rate_of_author, per_minute, burst = ARGV[15], tonumber(ARGV[16]), tonumber(ARGV[17])
local shown_access, judged_by = KEYS[8], ARGV[18]
local positions, name, position = unpack(ARGV, 19, 21)

local now = now_ms()
local lane = lane_of(handle)
local mailbox = mailboxes .. lane
local worker, fence, in_work = owner_of(lane)
local running = worker and 1 or 0
local waiting = call('LLEN', mailbox) - (in_work or 0)

if judged_by ~= '' and call('GET', shown_access) ~= judged_by then
  return { -4, waiting, running, 0 }
end
local function keep()
  if position ~= '' then
    call('HSET', positions, name, position)
  end
  keep_met(22, #ARGV, now)
end

if is_known(seen, digest, now) then
  keep()
  return { 0, waiting, running, 0 }
end
if waiting >= lane_max then
  return { -1, waiting, running, 0 }
end
if tonumber(call('GET', total) or '0') >= queue_max then
  return { -2, waiting, running, 0 }
end
if per_minute > 0 then
  local wait_ms = spend(rate_of_author, per_minute / 60, per_minute + burst, 0, now)
  if wait_ms > 0 then
    return { -3, waiting, running, wait_ms }
  end
end

remember(seen, digest, now)
keep()
call('INCR', total)
-- Thirteen digits of arrival time in front: settling needs them without parsing the envelope.
local length = call('RPUSH', mailbox, whole(now) .. envelope)

if worker then
  if interrupts then
    local _, _, stopped = past_of(lane)
    if stopped == 0 then
      cancel(worker, lane, fence, 'restart')
    end
  end
elseif length > 1 then
  if settle_ms > 0 and past_of(lane) == 0 then
    local first = tonumber(string.sub(call('LINDEX', mailbox, 0), 1, 13))
    call('ZADD', delay, 'XX', math.min(now + settle_ms, first + SETTLE_MAX_MS), handle)
  end
elseif settle_ms > 0 then
  call('ZADD', delay, now + settle_ms, handle)
  wake_one()
else
  admit(handle)
end
return { 1, waiting + 1, running, 0 }
