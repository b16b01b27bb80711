-- Make a stream and a group of it, unless they are there: also on a full server, where who starts again must read on.
-- ARGV: the group.
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err and string.sub(made.err, 1, 9) ~= 'BUSYGROUP' then
  return made
end
return 1
