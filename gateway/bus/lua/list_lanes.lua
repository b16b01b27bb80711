-- Every lane that has messages.
local lanes = {}

local function add(handles)
  for _, handle in ipairs(handles) do
    lanes[#lanes + 1] = lane_of(handle)
  end
end

add(call('LRANGE', ready, 0, -1))
add(call('ZRANGE', delay, 0, -1))
for _, user in ipairs(call('HKEYS', counts)) do -- a user with parked lanes uses all places
  add(call('LRANGE', parks .. user, 0, -1))
end
for _, lane in ipairs(call('HKEYS', own)) do
  lanes[#lanes + 1] = lane
end
return lanes
