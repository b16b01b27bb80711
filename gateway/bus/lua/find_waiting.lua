-- Look for messages, and later tries of them, in some lanes.
-- Answers {{lane, which of the identities, what the later try has after its id, messages before it, 1 if in work, ms}...}.
local wanted = tonumber(ARGV[7])

local found = {}
for number = 8 + wanted, #ARGV do
  local lane = ARGV[number]
  local _, _, in_work = owner_of(lane)
  for position, row in ipairs(call('LRANGE', mailboxes .. lane, 0, -1)) do
    for which = 1, wanted do
      local suffix = try_of(row, ARGV[7 + which])
      if suffix then
        local is_in_work = position <= (in_work or 0) and 1 or 0
        found[#found + 1] = { lane, which, suffix, position - 1, is_in_work, tonumber(string.sub(row, 1, 13)) }
      end
    end
  end
end
return found
