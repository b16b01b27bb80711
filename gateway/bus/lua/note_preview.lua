-- Write down which messages show the draft of a reply, unless the ledger says that its delivery has begun.
-- Answers 1, or 0 when nothing was written. ARGV: reply id, envelope.
local ledger, previews = unpack(KEYS)
local reply, envelope = unpack(ARGV)

if call('EXISTS', ledger) == 1 then
  return 0
end
call('HSET', previews, reply, envelope)
call('PEXPIRE', previews, LEDGER_TTL_MS)
return 1
