-- Spend one token of each bucket, or none at all: then answers how many ms to wait before asking again.
-- ARGV has three numbers for each: what it gains per second, its burst, and how many tokens have to be left over (for
-- sends that may be left out, so that those that may not find some).
local now, wait_ms, wanted = now_ms(), 0, {}
for index, bucket in ipairs(KEYS) do
  local per_s, burst, spare = unpack(ARGV, 3 * index - 2, 3 * index)
  wanted[index] = { bucket, tonumber(per_s), tonumber(burst), tonumber(spare), now }
  local paused_until = tonumber(call('HGET', bucket, 'paused') or 0)
  wait_ms = math.max(wait_ms, paused_until - now, (ms_to_a_token(unpack(wanted[index]))))
end
if wait_ms > 0 then
  return wait_ms
end
for _, wish in ipairs(wanted) do
  spend(unpack(wish))
end
return 0
