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

-- Tells a reader that cannot block on this key, because it waits for keys of other shards too, that it got something.
-- `news` is how all such pub/sub channels of an installation begin.
local function ring(news, key)
  call('PUBLISH', news .. key, '1')
end

-- Publishes a reply once per id, whoever asks and however often.
local function publish(news, stream, outbound_channels, channel, published, digest, envelope, now)
  if is_known(published, digest, now) then
    return 0
  end
  call('SADD', outbound_channels, channel)
  call('XADD', stream, '*', 'e', envelope)
  remember(published, digest, now) -- only now: what a server refused was not published
  ring(news, stream)
  return 1
end

-- Spends one token of each bucket of sends, or none at all. Answers 0, or how many ms to wait before asking again.
-- A bucket counts twice, and both counts gain `per_s` up to `burst`: `answers` is what answers have left, `tokens` what
-- everything has. An answer waits for the first alone, so never for an edit or an indicator; these need a token of the
-- second and `spare` more, so they are silent until the second has made up for the answers.
-- `numbers` has `per_s`, `burst` and `spare` of each, the last empty for an answer.
local function take(buckets, numbers, now)
  local wait_ms, left = 0, {}
  for index, bucket in ipairs(buckets) do
    local per_s, burst = tonumber(numbers[3 * index - 2]), tonumber(numbers[3 * index - 1])
    local spare = tonumber(numbers[3 * index])
    local tokens, answers, at, paused = unpack(call('HMGET', bucket, 'tokens', 'answers', 'at', 'paused'))
    local gained = math.max(0, now - tonumber(at or now)) * per_s / 1000
    tokens = math.min(burst, tonumber(tokens or burst) + gained)
    answers = math.min(burst, tonumber(answers or burst) + gained)
    local lacking = spare and 1 + spare - tokens or 1 - answers
    wait_ms = math.max(wait_ms, tonumber(paused or 0) - now, math.ceil(lacking * 1000 / per_s))
    left[index] = { tokens - 1, spare and answers or answers - 1, (burst - math.min(tokens, answers) + 1) / per_s }
  end
  if wait_ms > 0 then
    return wait_ms
  end
  for index, bucket in ipairs(buckets) do
    local tokens, answers, full_in_s = unpack(left[index])
    call('HSET', bucket, 'tokens', string.format('%.6f', tokens), 'answers', string.format('%.6f', answers),
      'at', whole(now))
    call('PEXPIRE', bucket, math.ceil(full_in_s * 1000) + 1000) -- a bucket that is full again is forgotten
  end
  return 0
end

-- Spends one token of a bucket that knows no answers, in the same way.
local function spend(bucket, per_s, burst, spare, now)
  return take({ bucket }, { per_s, burst, spare }, now)
end

-- Remembers messages of ours in a place, the newest SENT_IDS_MAX.
local function note_sent(sent, ids, now)
  if #ids == 0 then
    return
  end
  for _, id in ipairs(ids) do
    call('ZADD', sent, now, id)
  end
  call('ZREMRANGEBYRANK', sent, 0, -SENT_IDS_MAX - 1)
  call('PEXPIRE', sent, SENT_IDS_TTL_MS)
end
