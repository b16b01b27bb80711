-- A channel says how it is. Reports that ran out are forgotten.
local reports = KEYS[1]
local channel, state, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now = now_ms()
local rows = call('HGETALL', reports)
for position = 1, #rows, 2 do
  if tonumber(string.match(rows[position + 1], '^%d+')) <= now then
    call('HDEL', reports, rows[position])
  end
end
call('HSET', reports, channel, whole(now + ttl_ms) .. '|' .. state)
call('PEXPIRE', reports, math.max(call('PTTL', reports), ttl_ms))
return 1
