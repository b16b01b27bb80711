-- Lease ready lanes to one worker, with the messages at their heads.
-- Answers {ms to the next due lane or -1, {{handle, fence, failed runs, stopped, {message...}, {hash of a secret that was
-- found in the lane...}}...}, {{entry, dead message}...},
-- mark of the projection of access that is shown}, or -1 when the worker has no lease. Repeating a call whose answer was
-- lost gives the same lanes again: `known_fence` is the highest fence the worker has heard of.
local workers, fences, dead_letters, untold, shown_access = unpack(KEYS, 8)
local worker, known_fence = ARGV[7], ARGV[8]
local lanes_max, messages_max, attempts_max, turns_max = unpack(ARGV, 9)
local met = ARGV[13]
lanes_max, messages_max = tonumber(lanes_max), tonumber(messages_max)
attempts_max, turns_max = tonumber(attempts_max), tonumber(turns_max)

local now = now_ms()
local lease_end = call('ZSCORE', workers, worker)
if not lease_end or tonumber(lease_end) <= now then
  return -1
end

local claims, dead = {}, {}

for _, handle in ipairs(call('ZRANGEBYSCORE', worker_lanes .. worker, '(' .. known_fence, '+inf')) do
  local lane = lane_of(handle)
  local _, fence, count = owner_of(lane)
  local failures, _, stopped = past_of(lane)
  local messages = call('LRANGE', mailboxes .. lane, 0, count - 1)
  claims[#claims + 1] = { handle, tonumber(fence), failures, stopped, messages, call('ZRANGE', met .. lane, 0, -1) }
end

-- Dead letters of which a worker has heard and died before their authors were told.
for _, entry in ipairs(call('ZRANGEBYSCORE', untold, '-inf', now - DEAD_TOLD_WITHIN_MS, 'LIMIT', 0, lanes_max)) do
  local letter = call('XRANGE', dead_letters, entry, entry)[1]
  if letter then
    call('ZADD', untold, now, entry)
    dead[#dead + 1] = { entry, letter[2][2] }
  else
    call('ZREM', untold, entry)
  end
end

for _, handle in ipairs(call('ZRANGEBYSCORE', delay, '-inf', now, 'LIMIT', 0, DUE_LANES_MAX)) do
  call('ZREM', delay, handle)
  admit(handle)
end

-- The first message of a lane that keeps failing dies alone; what waits after it starts afresh.
local function give_up_head(lane, failures, stopped, failure)
  local message = string.sub(call('LPOP', mailboxes .. lane), 14)
  local entry = call('XADD', dead_letters, 'MAXLEN', '~', DEAD_LETTERS_MAX, '*',
    'e', message, 'reason', 'attempts', 'attempts', failures, 'error', failure)
  call('ZADD', untold, now, entry)
  call('DECR', total)
  set_past(lane, 0, 0, stopped, '')
  dead[#dead + 1] = { entry, message }
end

local function batch_size(failures, stopped)
  if stopped > 0 then
    return math.min(stopped, messages_max)
  end
  -- On its last try a message runs alone, so that none dies of its neighbour.
  return failures > 0 and failures == attempts_max - 1 and 1 or messages_max
end

local last_fence = math.max(tonumber(call('GET', fences) or '0'), now_us() - 1)
local fence = last_fence
local owners, leased = {}, {}

local function lease(lane, handle)
  local failures, _, stopped, failure = past_of(lane)
  if failures >= attempts_max then
    stopped = math.max(0, stopped - 1)
    give_up_head(lane, failures, stopped, failure)
    failures = 0
  end
  local messages = call('LRANGE', mailboxes .. lane, 0, batch_size(failures, stopped) - 1)
  if #messages == 0 then
    vanish(lane, handle)
    return
  end
  fence = fence + 1
  claims[#claims + 1] = { handle, fence, failures, stopped, messages, call('ZRANGE', met .. lane, 0, -1) }
  owners[#owners + 1] = lane
  owners[#owners + 1] = written_owner(worker, whole(fence), #messages)
  leased[#leased + 1] = whole(fence)
  leased[#leased + 1] = handle
end

local room = lanes_max
if turns_max > 0 then
  room = math.min(lanes_max, #claims + turns_max - call('HLEN', own))
end
while #claims < room do
  local handles = call('LPOP', ready, room - #claims)
  if not handles then
    break
  end
  for _, handle in ipairs(handles) do
    lease(lane_of(handle), handle)
  end
end
if fence > last_fence then
  call('HSET', own, unpack(owners))
  call('ZADD', worker_lanes .. worker, unpack(leased))
  call('SET', fences, whole(fence))
end

if turns_max == 0 or call('HLEN', own) < turns_max then
  wake_for_ready()
end
local next_due = call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
return { next_due and math.max(0, tonumber(next_due) - now) or -1, claims, dead, call('GET', shown_access) or '' }
