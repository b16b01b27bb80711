-- Keep sealed secrets of one owner. What has expired goes, and beyond the bound what expires first.
-- A field is uses|expiry in ms|tool that has it|sealed.
local vault = KEYS[1]
local uses = ARGV[1]
local now = now_ms()

for i = 2, #ARGV, 3 do
  call('HSET', vault, ARGV[i], uses .. '|' .. ARGV[i + 1] .. '||' .. ARGV[i + 2])
end
local kept = {}
local fields = call('HGETALL', vault)
for i = 1, #fields, 2 do
  local expiry = tonumber(string.match(fields[i + 1], '^%d+|(%d+)|'))
  if expiry <= now then
    call('HDEL', vault, fields[i])
  else
    kept[#kept + 1] = {fields[i], expiry}
  end
end
table.sort(kept, function(a, b) return a[2] > b[2] end)
for i = VAULT_SECRETS_MAX + 1, #kept do
  call('HDEL', vault, kept[i][1])
end
if kept[1] then
  call('PEXPIREAT', vault, whole(kept[1][2]))
end
return #kept
