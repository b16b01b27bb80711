-- Begin an attempt at a reply: judge whose entry it is, what is known of the reply, whether its place takes messages and
-- its buckets have tokens; only then the ledger says `sending`. All of it, or nothing is written.
-- Answers nothing when somebody else took the entry over, else {begun, ms to wait for tokens, why the place is dead,
-- whether its account is unsure, preview, ledger row}.
-- Without fields of the ledger it only looks. On a Cluster the place is in another shard: then there are no keys of it,
-- and its judgement comes before this one.
-- KEYS: stream, ledger, previews; sent messages, the marks of a dead place and an unsure account, then its buckets.
-- ARGV: group, entry, consumer, reply, attempt, first, preview to adopt, number of its messages, these; three numbers for
-- each bucket; then field, value, ...
local stream, ledger, previews, sent, dead_place, unsure = unpack(KEYS, 1, 6)
local group, entry, consumer, reply, attempt, first, adopts = unpack(ARGV, 1, 7)
local is_first, messages = first == '1', tonumber(ARGV[8])
local buckets = { unpack(KEYS, 7) }
local numbers_at = 9 + messages
local fields_at = numbers_at + 3 * #buckets

if #call('XPENDING', stream, group, entry, entry, 1, consumer) == 0 then
  return false
end
local row, preview = call('HGETALL', ledger), call('HGET', previews, reply) or ''
if call('HGET', ledger, 'begun_by') == attempt then -- it has begun, and the answer was lost
  return { 1, 0, '', 0, '', row }
end
local dead, is_unsure = '', 0
if dead_place then
  dead, is_unsure = call('GET', dead_place) or '', call('EXISTS', unsure)
end

local function not_begun(wait_ms)
  return { 0, wait_ms, dead, is_unsure, preview, row }
end

if not ARGV[fields_at] or (adopts ~= '' and preview ~= adopts) then
  return not_begun(0)
end
if is_first and (#row > 0 or preview ~= '' or dead ~= '' or is_unsure == 1) then
  return not_begun(0)
end
local now = now_ms()
local wait_ms = take(buckets, { unpack(ARGV, numbers_at, fields_at - 1) }, now)
if wait_ms > 0 then
  return not_begun(wait_ms)
end

call('HSET', ledger, 'begun_by', attempt, unpack(ARGV, fields_at))
call('PEXPIRE', ledger, LEDGER_TTL_MS)
if adopts ~= '' then
  call('HDEL', previews, reply)
end
if sent then
  note_sent(sent, { unpack(ARGV, 9, numbers_at - 1) }, now)
end
return { 1, 0, dead, is_unsure, '', row }
