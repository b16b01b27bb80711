-- The end of a delivery: last ledger state, receipt, and the entry is gone. Once per entry.
-- Answers 1, or 0 when it had ended before. ARGV: group, entry, receipt, news, then the ledger's fields.
local stream, ledger, receipts = unpack(KEYS)
local group, entry, receipt, news = unpack(ARGV, 1, 4)

if call('XACK', stream, group, entry) == 0 then
  return 0
end
call('XDEL', stream, entry)
call('HSET', ledger, unpack(ARGV, 5))
call('PEXPIRE', ledger, LEDGER_TTL_MS)
call('XADD', receipts, 'MAXLEN', '~', RECEIPTS_MAX, '*', 'e', receipt)
ring(news, receipts)
return 1
