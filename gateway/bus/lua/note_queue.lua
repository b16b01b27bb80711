-- How much waits at this moment. Several processes look: one look in each span of time is kept.
local past = KEYS[1]
local queued, oldest_ms = ARGV[1], ARGV[2]

local now = now_ms()
local newest = call('XREVRANGE', past, '+', '-', 'COUNT', 1)[1]
if newest and now - tonumber(string.match(newest[1], '^%d+')) < QUEUE_NOTED_EVERY_MS / 2 then
  return 0
end
call('XADD', past, 'MINID', whole(now - QUEUE_PAST_MS), '*', 'queued', queued, 'oldest_ms', oldest_ms)
call('PEXPIRE', past, QUEUE_PAST_MS)
return 1
