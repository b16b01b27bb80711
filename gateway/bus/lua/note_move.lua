-- A chat has another id. Each of its ids leads to the first, and the first to the newest.
-- What is known already, however late it is said again, changes nothing.
local newest_ids, first_ids = unpack(KEYS)
local old, new = unpack(ARGV)

local first = call('HGET', first_ids, old) or old
if new == first or call('HGET', first_ids, new) == first then
  return 0
end
call('HSET', first_ids, new, first)
call('HSET', newest_ids, first, new)
return 1
