-- Renew a worker's lease. Answers its pending cancels, or -1 when it was reaped meanwhile.
-- A lease that ran out but was not reaped yet is still its own: nobody else can have its lanes.
local workers, cancels = unpack(KEYS)
local worker, lease_ms = ARGV[1], tonumber(ARGV[2])

if not call('ZSCORE', workers, worker) then
  return -1
end
call('ZADD', workers, now_ms() + lease_ms, worker)
local pending = call('LRANGE', cancels, 0, -1)
call('DEL', cancels)
return pending
