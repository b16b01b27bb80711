-- Use up one call of each named secret for one tool, all of them or none. Answers expiry and sealed of each.
local vault = KEYS[1]
local tool = ARGV[1]
local now = now_ms()

local taken = {}
for i = 2, #ARGV do
  local uses, expiry, holder, sealed = string.match(call('HGET', vault, ARGV[i]) or '', '^(%d+)|(%d+)|([^|]*)|(.*)$')
  if not uses or tonumber(expiry) <= now or (holder ~= '' and holder ~= tool) then
    return {}
  end
  taken[#taken + 1] = {ARGV[i], tonumber(uses) - 1, expiry, sealed}
end
local answer = {}
for _, secret in ipairs(taken) do
  local field, left, expiry, sealed = unpack(secret)
  if left > 0 then
    call('HSET', vault, field, whole(left) .. '|' .. expiry .. '|' .. tool .. '|' .. sealed)
  else
    call('HDEL', vault, field)
  end
  answer[#answer + 1] = expiry
  answer[#answer + 1] = sealed
end
return answer
