-- Put a staged projection in the place of the one that is shown, unless that is a later one.
-- Answers 1, or 0 for a later one that stays.
local shown, grants, places, limits, next_grants, next_places, next_limits = unpack(KEYS)
local revision, is_forced = ARGV[1], ARGV[2] == '1'

local present = tonumber(call('GET', shown) or '-1')
if present > tonumber(revision) and not is_forced then
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
call('SET', shown, revision)
return 1
