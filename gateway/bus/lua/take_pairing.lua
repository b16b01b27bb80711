-- Take a pairing code, once; whoever took it may ask again. Who errs too often is not listened to.
-- Answers {1, fields}, {0, tries left}, or {-1, ms until the taker is listened to}.
local by_code, tries, pending = unpack(KEYS)
local by_owner_prefix, taker = unpack(ARGV)

local erred = tonumber(call('GET', tries) or '0')
if erred >= PAIRING_TRIES_MAX then
  return { -1, call('PTTL', tries) }
end
local owner, taken_by = unpack(call('HMGET', by_code, 'owner', 'taken_by'))
if owner and (not taken_by or taken_by == taker) then
  if not taken_by then
    call('HSET', by_code, 'taken_by', taker)
    call('PEXPIRE', by_code, PAIRING_TAKEN_MS)
    call('DEL', by_owner_prefix .. owner)
    call('ZREM', pending, owner)
  end
  call('DEL', tries)
  return { 1, call('HGETALL', by_code) }
end
call('SET', tries, erred + 1, 'PX', PAIRING_LOCKED_MS)
return { 0, PAIRING_TRIES_MAX - erred - 1 }
