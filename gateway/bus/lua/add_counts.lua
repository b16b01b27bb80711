-- Adds to what is counted since the bus was new, and to what is counted in this span of time, for a day.
local tally, slots = unpack(KEYS)

local slot = slots .. whole(math.floor(now_ms() / TALLY_SLOT_MS))
for position = 1, #ARGV, 2 do
  call('HINCRBY', tally, ARGV[position], ARGV[position + 1])
  call('HINCRBY', slot, ARGV[position], ARGV[position + 1])
end
call('PEXPIRE', slot, TALLY_PAST_MS)
return 1
