-- Write the ledger row of one reply. ARGV: field, value, ...
local ledger = KEYS[1]
call('HSET', ledger, unpack(ARGV))
call('PEXPIRE', ledger, LEDGER_TTL_MS)
return 1
