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

-- Tells whoever cannot block on this key, because he waits for keys of other shards too, that it got something. `news`
-- is how all such pub/sub channels of an installation begin.
local function ring(news, key)
  call('PUBLISH', news .. key, '1')
end

-- Publishes a reply once per id, whoever asks and however often.
local function publish(news, stream, outbound_channels, channel, published, digest, envelope, now)
  if is_known(published, digest, now) then
    return 0
  end
  remember(published, digest, now)
  call('SADD', outbound_channels, channel)
  call('XADD', stream, '*', 'e', envelope)
  ring(news, stream)
  return 1
end

-- How many ms until a bucket that gains `per_s`, up to `burst`, has a token and `spare` more; and how many it has now.
local function ms_to_a_token(bucket, per_s, burst, spare, now)
  local tokens, at = unpack(call('HMGET', bucket, 'tokens', 'at'))
  tokens, at = tonumber(tokens or burst), tonumber(at or now)
  tokens = math.min(burst, tokens + math.max(0, now - at) * per_s / 1000)
  return tokens < 1 + spare and math.ceil((1 + spare - tokens) * 1000 / per_s) or 0, tokens
end

-- Spend one token of such a bucket. Answers 0, or how many ms to wait before asking again (then nothing is spent). A
-- bucket that is full again is forgotten.
local function spend(bucket, per_s, burst, spare, now)
  local wait_ms, tokens = ms_to_a_token(bucket, per_s, burst, spare, now)
  if wait_ms > 0 then
    return wait_ms
  end
  call('HSET', bucket, 'tokens', string.format('%.6f', tokens - 1), 'at', whole(now))
  call('PEXPIRE', bucket, math.ceil(burst * 1000 / per_s) + 1000)
  return 0
end
