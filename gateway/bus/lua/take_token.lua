-- Spend one token of a bucket, or say how many ms to wait before asking again (then nothing is spent).
-- `spare` tokens have to be left over: for sends that may be left out, so that those that may not find some.
local bucket = KEYS[1]
local per_s, burst, spare = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local now = now_ms()
local paused_until = tonumber(call('HGET', bucket, 'paused') or 0)
if paused_until > now then
  return paused_until - now
end
return spend(bucket, per_s, burst, spare, now)
