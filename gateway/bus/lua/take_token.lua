-- Spend one token of a bucket, or say how many ms to wait before asking again (then nothing is spent).
-- `spare` tokens have to be left over: for sends that may be left out, so that those that may not find some.
local bucket = KEYS[1]
local per_s, burst, spare = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local now = now_ms()
local tokens, at, paused_until = unpack(call('HMGET', bucket, 'tokens', 'at', 'paused'))
tokens, at, paused_until = tonumber(tokens or burst), tonumber(at or now), tonumber(paused_until or 0)
if paused_until > now then
  return paused_until - now
end
tokens = math.min(burst, tokens + math.max(0, now - at) * per_s / 1000)
if tokens < 1 + spare then
  return math.ceil((1 + spare - tokens) * 1000 / per_s)
end
call('HSET', bucket, 'tokens', string.format('%.6f', tokens - 1), 'at', whole(now))
-- A bucket that nobody touched until it is full again may be forgotten.
call('PEXPIRE', bucket, math.ceil(burst * 1000 / per_s) + 1000)
return 0
