-- Put in front of the scripts about lanes, after prelude.lua. They share their first keys and arguments.
--
-- A lane is absent, ready, parked, delayed or owned. A user has `user_turns_max` places among the ready
-- and the owned; `counts` says how many of them are used; the user's other lanes are parked until one becomes free.

local ready, delay, own, past, counts, total, wake = unpack(KEYS, 1, 7)
local mailboxes, parks, worker_lanes, cancels, news = unpack(ARGV, 1, 5)
local user_turns_max = tonumber(ARGV[6])

-- What is left of a message that was withdrawn during its run: messages are counted from the head.
local WITHDRAWN = '0000000000000'

local function lane_of(handle)
  return string.match(handle, '^([^\31]*)\31')
end

local function user_of(handle)
  return string.match(handle, '\31(.*)$')
end

-- What `own` says of a lane, and how that is read: worker, fence, number of messages in work; nil when nobody runs it.
local function written_owner(worker, fence, count)
  return worker .. '|' .. fence .. '|' .. whole(count)
end

local function read_owner(held)
  if not held then
    return nil
  end
  local worker, fence, count = string.match(held, '^(.*)|(%d+)|(%d+)$')
  return worker, fence, tonumber(count)
end

local function owner_of(lane)
  return read_owner(call('HGET', own, lane))
end

local function is_owner(lane, lease_worker, lease_fence)
  local worker, fence, in_work = owner_of(lane)
  return worker == lease_worker and fence == lease_fence, in_work
end

-- What befell the messages at the head of a lane: failed runs, restarts, how many a /stop hit, last error.
local function past_of(lane)
  local row = call('HGET', past, lane)
  if not row then
    return 0, 0, 0, ''
  end
  local failures, restarts, stopped, failure = string.match(row, '^(%d+)|(%d+)|(%d+)|(.*)$')
  return tonumber(failures), tonumber(restarts), tonumber(stopped), failure
end

local function set_past(lane, failures, restarts, stopped, failure)
  if failures + restarts + stopped > 0 then
    call('HSET', past, lane, table.concat({ whole(failures), whole(restarts), whole(stopped), failure }, '|'))
  else
    call('HDEL', past, lane)
  end
end

local function count_failure(lane, failure)
  local failures, restarts, stopped = past_of(lane)
  set_past(lane, failures + 1, restarts, stopped, failure)
end

-- Keeps the hashes of secrets that were found in a lane, the newest MET_SECRETS_MAX. The arguments from `first` to `last`
-- are their key and they; most often there are none.
local function keep_met(first, last, now)
  if first <= last then
    local met = ARGV[first]
    for at = first + 1, last do
      call('ZADD', met, now, ARGV[at])
    end
    call('ZREMRANGEBYSCORE', met, '-inf', now - MET_SECRETS_TTL_MS)
    call('ZREMRANGEBYRANK', met, 0, -MET_SECRETS_MAX - 1)
    call('PEXPIRE', met, MET_SECRETS_TTL_MS)
  end
end

-- One token wakes one idle worker; whoever claims passes it on while lanes are left.
local function wake_one()
  if call('LLEN', wake) == 0 then
    call('RPUSH', wake, '1')
    ring(news, wake)
  end
end

-- A script that leaves lanes ready, or makes room for one more turn, wakes a worker.
local function wake_for_ready()
  if call('LLEN', ready) > 0 then
    wake_one()
  end
end

-- A lane that was absent or delayed takes a place of its user, or is parked.
local function admit(handle)
  local user = user_of(handle)
  if call('HINCRBY', counts, user, 1) <= user_turns_max then
    call('RPUSH', ready, handle)
    wake_one()
  else
    call('HINCRBY', counts, user, -1)
    call('RPUSH', parks .. user, handle)
  end
end

-- A lane left its user's place: the one that is parked longest takes it.
local function free_place(user)
  local used = call('HINCRBY', counts, user, -1)
  while used < user_turns_max do
    local handle = call('LPOP', parks .. user)
    if not handle then
      break
    end
    call('RPUSH', ready, handle)
    wake_one()
    used = call('HINCRBY', counts, user, 1)
  end
  if used <= 0 then
    call('HDEL', counts, user)
  end
end

-- A lane without messages leaves no trace.
local function vanish(lane, handle)
  call('HDEL', past, lane)
  free_place(user_of(handle))
end

-- Nobody runs these lanes any more.
local function release(worker, lanes, handles)
  call('HDEL', own, unpack(lanes))
  call('ZREM', worker_lanes .. worker, unpack(handles))
end

-- What was withdrawn during a run goes; it lies among the messages of the run that are left, which are none where
-- `unhandled` is 0. Answers whether messages are left in the lane.
local function has_more(lane, handle, unhandled)
  local mailbox = mailboxes .. lane
  local left = call('LLEN', mailbox)
  local withdrawn = left > 0 and unhandled > 0 and call('LREM', mailbox, 0, WITHDRAWN) or 0
  if withdrawn > 0 then
    call('DECRBY', total, withdrawn)
    local failures, restarts, stopped, failure = past_of(lane)
    set_past(lane, failures, restarts, math.max(0, stopped - withdrawn), failure)
  end
  if left > withdrawn then
    return true
  end
  vanish(lane, handle)
  return false
end

-- The run of a lane is over, and came to nothing. Answers whether messages are left.
local function end_run(lane, handle, worker)
  release(worker, { lane }, { handle })
  return has_more(lane, handle, 1)
end

-- After a run: the lane goes to the end, first those of its user, then everybody's.
local function go_to_the_tail(handle)
  local user = user_of(handle)
  if call('EXISTS', parks .. user) == 0 then
    call('RPUSH', ready, handle) -- nobody waits for its place
  else
    call('RPUSH', parks .. user, handle)
    free_place(user)
  end
end

-- After a run that was cut short: the lane keeps its place and is next.
local function go_to_the_front(handle)
  call('LPUSH', ready, handle)
  wake_one()
end

-- After a run that came to nothing: the whole lane waits, so that its order holds.
local function put_off(handle, delay_ms)
  call('ZADD', delay, now_ms() + delay_ms, handle)
  free_place(user_of(handle))
end

-- A worker is gone: its lane starts again in front, with one more failed run. From the second one on it waits first,
-- longer each time: workers that die for another reason shall have the time to live again. After the last it is given up.
local function survive_worker(lane, handle, worker)
  if end_run(lane, handle, worker) then
    count_failure(lane, 'the worker died')
    local failures = past_of(lane)
    if failures > 1 and failures < TURN_ATTEMPTS_MAX then
      put_off(handle, DEATH_DELAY_MS * 4 ^ (failures - 2))
      wake_one() -- whoever claims hears when it is due
    else
      go_to_the_front(handle)
    end
  end
end

-- A lane that nobody runs has lost its last message, wherever it was listed.
local function forget(lane, handle)
  if call('ZREM', delay, handle) == 1 or call('LREM', parks .. user_of(handle), 1, handle) == 1 then
    call('HDEL', past, lane)
  elseif call('LREM', ready, 1, handle) == 1 then
    vanish(lane, handle)
  end
end

-- Published for speed, kept for certainty: until the worker's beat says that it has heard.
local function cancel(worker, lane, fence, kind)
  local word = table.concat({ kind, lane, fence }, '\31')
  call('PUBLISH', news .. cancels .. worker, word)
  call('SADD', cancels .. worker, word)
end

-- Whether a turn runs that was not stopped yet, or a message waits that a stop would drop.
local function finds_what_to_stop(lane)
  local _, _, in_work = owner_of(lane)
  local _, _, stopped = past_of(lane)
  return call('LLEN', mailboxes .. lane) > (in_work or stopped) or (in_work or 0) > stopped
end

-- The running turn is to end, and what waits after it goes. Answers how many messages that were.
local function stop(lane, handle)
  local worker, fence, in_work = owner_of(lane)
  local failures, restarts, stopped, failure = past_of(lane)
  local mailbox = mailboxes .. lane
  local length = call('LLEN', mailbox)
  local kept = in_work or stopped
  local dropped = length - kept
  if dropped > 0 then
    call('RPOP', mailbox, dropped)
    call('DECRBY', total, dropped)
  end
  if worker then
    -- Whoever runs these messages next, after a death or a revoke, knows that they were stopped.
    set_past(lane, failures, restarts, in_work, failure)
    cancel(worker, lane, fence, 'stop')
  elseif length > 0 and kept == 0 then
    forget(lane, handle)
  end
  return dropped
end

-- Whether a row of a mailbox is the message whose envelope begins with `identity`, or a later try of it: answers what the
-- try has after that id (`~1`, see `retry_id_of`), '' for the message itself, nil for another. `identity` ends with `",`.
local function try_of(row, identity)
  local behind = 13 + #identity - 1
  if string.sub(row, 14, behind - 1) == string.sub(identity, 1, -3) then
    return string.match(row, '^(~%d+)",', behind) or string.sub(row, behind, behind + 1) == '",' and '' or nil
  end
end

-- Where the message is whose envelope begins with `identity`, or a later try of it: its index, what lies there, and what
-- the later try has after its id.
local function find(lane, identity)
  for position, message in ipairs(call('LRANGE', mailboxes .. lane, 0, -1)) do
    local suffix = try_of(message, identity)
    if suffix then
      return position - 1, message, suffix
    end
  end
end
