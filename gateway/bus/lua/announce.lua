-- Renew the presence of a channel's consumer. Answers the consumers that are present.
local consumers = KEYS[1]
local consumer, presence_ms = ARGV[1], tonumber(ARGV[2])

local now = now_ms()
call('ZREMRANGEBYSCORE', consumers, '-inf', now)
call('ZADD', consumers, now + presence_ms, consumer)
call('PEXPIRE', consumers, presence_ms)
return call('ZRANGE', consumers, 0, -1)
