-- What the projection says of one person and of some places, all of one moment.
-- ARGV: the person, three roles, the places. Answers nothing where no projection is, else the person's role, the limits
-- of the person and of each role, and each place's rule; '' for none.
local revision, grants, places, limits = unpack(KEYS)
local ROLES = 3

if call('EXISTS', revision) == 0 then
  return false
end
local found = { call('HGET', grants, ARGV[1]) or '' }
for index = 1, #ARGV do
  local rules = index <= 1 + ROLES and limits or places
  found[index + 1] = call('HGET', rules, ARGV[index]) or ''
end
return found
