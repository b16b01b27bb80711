-- Put in front of every script. The names in capitals come from gateway.limits (see scripts.py).

local call = redis.call

local function now_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- A plain tostring() would print large numbers as 1.7e+15.
local function whole(number)
  return string.format('%.0f', number)
end

-- Ids are remembered as digests in sets, one per span of time, so that forgetting is a key that expires.
local function is_known(prefix, digest, now)
  local bucket = math.floor(now / DEDUPE_BUCKET_MS)
  for age = 0, DEDUPE_BUCKETS - 1 do
    if call('SISMEMBER', prefix .. whole(bucket - age), digest) == 1 then
      return true
    end
  end
  return false
end

local function remember(prefix, digest, now)
  local key = prefix .. whole(math.floor(now / DEDUPE_BUCKET_MS))
  call('SADD', key, digest)
  if call('PTTL', key) < 0 then
    call('PEXPIRE', key, DEDUPE_BUCKET_MS * DEDUPE_BUCKETS)
  end
end

-- One token wakes one idle worker; whoever claims passes it on while lanes are left.
local function wake_one(wake)
  if call('LLEN', wake) == 0 then
    call('RPUSH', wake, '1')
  end
end

local function make_ready(ready, wake, handle)
  call('RPUSH', ready, handle)
  wake_one(wake)
end

local function lane_of(handle)
  return string.match(handle, '^([^\31]*)\31')
end

-- The owner of a lane: worker, fence, number of messages in work; nil when nobody runs it.
local function owner_of(own, lane)
  local held = call('HGET', own, lane)
  if not held then
    return nil
  end
  local worker, fence, count = string.match(held, '^(.*)|(%d+)|(%d+)$')
  return worker, fence, tonumber(count)
end

local function owner_text(worker, fence, count)
  return worker .. '|' .. fence .. '|' .. whole(count)
end

local function failed_runs(attempts, lane)
  local row = call('HGET', attempts, lane)
  return row and tonumber(string.match(row, '^%d+')) or 0
end

local function count_failure(attempts, lane, failure)
  call('HSET', attempts, lane, whole(failed_runs(attempts, lane) + 1) .. '|' .. failure)
end

-- A lane goes back to the front of the ready list with everything it holds.
local function hand_back(ready, own, lane, handle)
  call('HDEL', own, lane)
  call('LPUSH', ready, handle)
end

-- Publishes a reply once per id, whoever asks and however often.
local function publish(stream, outbound_channels, channel, published, digest, envelope, now)
  if is_known(published, digest, now) then
    return 0
  end
  remember(published, digest, now)
  call('SADD', outbound_channels, channel)
  call('XADD', stream, '*', 'e', envelope)
  return 1
end
