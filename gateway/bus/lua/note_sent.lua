-- Remember messages of ours in a place, the newest SENT_IDS_MAX. ARGV: their ids.
local sent = KEYS[1]

local now = now_ms()
for _, id in ipairs(ARGV) do
  call('ZADD', sent, now, id)
end
call('ZREMRANGEBYRANK', sent, 0, -SENT_IDS_MAX - 1)
call('PEXPIRE', sent, SENT_IDS_TTL_MS)
return 1
