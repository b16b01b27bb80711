-- Write down which messages show the draft of a reply, unless the ledger says that its delivery has begun.
-- Answers 1, or 0 when nothing was written. KEYS: ledger, previews, and the messages of ours in the place if that is in
-- this shard. ARGV: reply id, envelope, then those of the messages that are new.
local ledger, previews, sent = unpack(KEYS, 1, 3)
local reply, envelope = unpack(ARGV, 1, 2)

if call('EXISTS', ledger) == 1 then
  return 0
end
call('HSET', previews, reply, envelope)
call('PEXPIRE', previews, LEDGER_TTL_MS)
if sent then
  note_sent(sent, { unpack(ARGV, 3) }, now_ms())
end
return 1
