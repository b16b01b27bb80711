-- Write down how far a reply came, and which messages have arrived; at its end, which has a receipt, hand that over and
-- drop the entry, once.
-- Answers 1, or 0: somebody else took the entry over (then nothing is written), or it had ended before.
-- KEYS: stream, ledger, receipts, and the messages of ours in the place if that is in this shard.
-- ARGV: group, entry, consumer, receipt, news, number of messages, these, then field, value, ...
local stream, ledger, receipts, sent = unpack(KEYS, 1, 4)
local group, entry, consumer, receipt, news = unpack(ARGV, 1, 5)
local fields_at = 7 + tonumber(ARGV[6])
local is_end = receipt ~= ''

if not is_end and #call('XPENDING', stream, group, entry, entry, 1, consumer) == 0 then
  return 0
end
if sent then
  note_sent(sent, { unpack(ARGV, 7, fields_at - 1) }, now_ms())
end
if is_end and call('XACK', stream, group, entry) == 0 then
  return 0
end
call('HSET', ledger, unpack(ARGV, fields_at))
call('PEXPIRE', ledger, LEDGER_TTL_MS)
if is_end then
  call('XDEL', stream, entry)
  call('XADD', receipts, 'MAXLEN', '~', RECEIPTS_MAX, '*', 'e', receipt)
  ring(news, receipts)
end
return 1
