-- Put a staged projection in the place of the one that is shown, unless that is a later one.
-- A mark is the revision, a colon and what tells this showing from any other. Answers 1, also when it is shown already: a
-- call that is repeated finds nothing staged any more; 0 for a later one that stays.
local shown, grants, places, limits, next_grants, next_places, next_limits = unpack(KEYS)
local mark, is_forced = ARGV[1], ARGV[2] == '1'

local function revision_of(text)
  return tonumber(string.match(text, '^%d+'))
end

local present = call('GET', shown)
if present == mark then
  return 1
end
if present and revision_of(present) > revision_of(mark) and not is_forced then
  call('DEL', next_grants, next_places, next_limits)
  return 0
end
for staged, target in pairs({ [next_grants] = grants, [next_places] = places, [next_limits] = limits }) do
  if call('EXISTS', staged) == 1 then
    call('RENAME', staged, target)
    call('PERSIST', target)
  else
    call('DEL', target)
  end
end
call('SET', shown, mark)
return 1
