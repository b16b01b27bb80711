-- Deduplicate and append one message: both or neither.
-- Answers {verdict, waiting, running}; verdict 1 accepted, 0 duplicate, -1 lane full, -2 queue full.
local mailbox, ready, delay, own, attempts, total, wake = unpack(KEYS)
local lane, handle, envelope, seen, digest = unpack(ARGV, 1, 5)
local settle_ms, lane_max, queue_max = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local now = now_ms()
local worker, _, in_work = owner_of(own, lane)
local running = worker and 1 or 0
local waiting = call('LLEN', mailbox) - (in_work or 0)

if is_known(seen, digest, now) then
  return { 0, waiting, running }
end
if waiting >= lane_max then
  return { -1, waiting, running }
end
if tonumber(call('GET', total) or '0') >= queue_max then
  return { -2, waiting, running }
end

remember(seen, digest, now)
call('INCR', total)
-- Thirteen digits of arrival time in front: settling needs them without parsing the envelope.
local length = call('RPUSH', mailbox, whole(now) .. envelope)

if worker then
  return { 1, waiting + 1, 1 }
end
if length == 1 then
  if settle_ms > 0 then
    call('ZADD', delay, now + settle_ms, handle)
    wake_one(wake)
  else
    make_ready(ready, wake, handle)
  end
elseif settle_ms > 0 and failed_runs(attempts, lane) == 0 then
  local first = tonumber(string.sub(call('LINDEX', mailbox, 0), 1, 13))
  call('ZADD', delay, 'XX', math.min(now + settle_ms, first + SETTLE_MAX_MS), handle)
end
return { 1, waiting + 1, 0 }
