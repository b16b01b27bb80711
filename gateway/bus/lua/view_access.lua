-- What the projection says of one person and of some places, all of one moment.
-- Answers nothing where no projection is, else the role and each place's rule, '' for none.
local revision, grants, places = unpack(KEYS)

if call('EXISTS', revision) == 0 then
  return false
end
local found = { call('HGET', grants, ARGV[1]) or '' }
for index = 2, #ARGV do
  found[index] = call('HGET', places, ARGV[index]) or ''
end
return found
