-- Renew a worker's lease. Answers its pending cancels, or -1 when it was reaped meanwhile.
-- A lease that ran out but was not reaped yet is still its own: nobody else can have its lanes.
-- ARGV: worker, lease, then the cancels that it has heard.
local workers, cancels = unpack(KEYS)
local worker, lease_ms = ARGV[1], tonumber(ARGV[2])

if not call('ZSCORE', workers, worker) then
  return -1
end
call('ZADD', workers, now_ms() + lease_ms, worker)
for position = 3, #ARGV do
  call('SREM', cancels, ARGV[position])
end
return call('SMEMBERS', cancels)
