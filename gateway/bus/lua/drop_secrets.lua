-- Forget every secret of one lane: the fields that begin with it.
local vault = KEYS[1]
local lane = ARGV[1]

local dropped = 0
for _, field in ipairs(call('HKEYS', vault)) do
  if string.sub(field, 1, #lane) == lane then
    dropped = dropped + call('HDEL', vault, field)
  end
end
return dropped
