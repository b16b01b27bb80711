-- A place takes nothing any more. Answers how many refusals the account met in this window.
local dead_place, refusals = unpack(KEYS)
local reason = ARGV[1]

call('SET', dead_place, reason, 'PX', DEAD_PLACE_TTL_MS)
local met = call('INCR', refusals)
if met == 1 then
  call('PEXPIRE', refusals, REFUSALS_WINDOW_MS)
end
return met
