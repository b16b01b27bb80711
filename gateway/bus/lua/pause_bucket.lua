-- Nobody sends from this bucket before the pause is over; then it starts with one token, not a burst.
local bucket = KEYS[1]
local pause_ms = tonumber(ARGV[1])

local until_ms = now_ms() + pause_ms
if until_ms > tonumber(call('HGET', bucket, 'paused') or '0') then
  call('HSET', bucket, 'tokens', '1', 'answers', '1', 'at', whole(until_ms), 'paused', whole(until_ms))
end
call('PEXPIRE', bucket, math.max(call('PTTL', bucket), pause_ms + PAUSE_MEMORY_MS))
return 1
