-- What the projection says of one person and of some places, all of one moment.
-- ARGV: the person, three roles, the places. Answers nothing where no projection is, else its mark, the person's role,
-- the limits of the person and of each role, and each place's rule; '' for none.
local shown, grants, places, limits = unpack(KEYS)
local ROLES = 3

local mark = call('GET', shown)
if not mark then
  return false
end
local found = { mark, call('HGET', grants, ARGV[1]) or '' }
for index = 1, #ARGV do
  local rules = index <= 1 + ROLES and limits or places
  found[index + 2] = call('HGET', rules, ARGV[index]) or ''
end
return found
