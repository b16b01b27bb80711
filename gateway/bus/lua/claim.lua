-- Lease ready lanes to one worker, with the messages at their heads.
-- Answers {ms to the next due lane or -1, {{handle, fence, failed runs, {message...}}...}, {dead message...}},
-- or -1 when the worker has no lease. Repeating a call whose answer was lost gives the same lanes again:
-- `known_fence` is the highest fence the worker has heard of.
local workers, worker_lanes, ready, delay, own, attempts, total, fences, wake, dead_letters = unpack(KEYS)
local worker, mailbox_prefix = ARGV[1], ARGV[2]
local lanes_max, messages_max, attempts_max = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known_fence = ARGV[6]

local now = now_ms()
local lease_end = call('ZSCORE', workers, worker)
if not lease_end or tonumber(lease_end) <= now then
  return -1
end

local claims, dead = {}, {}

for _, handle in ipairs(call('ZRANGEBYSCORE', worker_lanes, '(' .. known_fence, '+inf')) do
  local lane = lane_of(handle)
  local _, fence, count = owner_of(own, lane)
  local messages = call('LRANGE', mailbox_prefix .. lane, 0, count - 1)
  claims[#claims + 1] = { handle, tonumber(fence), failed_runs(attempts, lane), messages }
end

for _, handle in ipairs(call('ZRANGEBYSCORE', delay, '-inf', now, 'LIMIT', 0, lanes_max)) do
  call('ZREM', delay, handle)
  call('RPUSH', ready, handle)
end

-- The first message of a lane that keeps failing dies alone; what waits behind it starts afresh.
local function bury_head(lane, mailbox, failures)
  local message = string.sub(call('LPOP', mailbox), 14)
  local failure = string.match(call('HGET', attempts, lane), '^%d+|(.*)$')
  call('XADD', dead_letters, 'MAXLEN', '~', DEAD_LETTERS_MAX, '*',
    'e', message, 'reason', 'attempts', 'attempts', failures, 'error', failure)
  call('DECR', total)
  call('HDEL', attempts, lane)
  dead[#dead + 1] = message
end

local function lease(lane, handle, mailbox, failures)
  -- On its last try a message runs alone, so that none dies of its neighbour.
  local is_last_try = failures > 0 and failures == attempts_max - 1
  local messages = call('LRANGE', mailbox, 0, is_last_try and 0 or messages_max - 1)
  local fence = math.max(tonumber(call('GET', fences) or '0') + 1, now_us())
  call('SET', fences, whole(fence))
  call('HSET', own, lane, owner_text(worker, whole(fence), #messages))
  call('ZADD', worker_lanes, whole(fence), handle)
  claims[#claims + 1] = { handle, fence, failures, messages }
end

while #claims < lanes_max do
  local handle = call('LPOP', ready)
  if not handle then
    break
  end
  local lane = lane_of(handle)
  local mailbox = mailbox_prefix .. lane
  if call('HEXISTS', own, lane) == 0 then
    local failures = failed_runs(attempts, lane)
    if failures >= attempts_max and call('LLEN', mailbox) > 0 then
      bury_head(lane, mailbox, failures)
      failures = 0
    end
    if call('LLEN', mailbox) > 0 then
      lease(lane, handle, mailbox, failures)
    end
  end
end

if call('LLEN', ready) > 0 then
  wake_one(wake)
end
local next_due = call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
return { next_due and math.max(0, tonumber(next_due) - now) or -1, claims, dead }
