-- Write the ledger row of one reply, if its entry is still this consumer's. Answers 1, or 0 when somebody
-- else took the entry over (then nothing is written). ARGV: group, entry, consumer, then field, value, ...
local stream, ledger = unpack(KEYS)
local group, entry, consumer = unpack(ARGV, 1, 3)

if #call('XPENDING', stream, group, entry, entry, 1, consumer) == 0 then
  return 0
end
call('HSET', ledger, unpack(ARGV, 4))
call('PEXPIRE', ledger, LEDGER_TTL_MS)
return 1
