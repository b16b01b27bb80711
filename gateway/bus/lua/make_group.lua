-- Make the group that reads a stream, from its beginning, also on a full server, where who starts again must read on: what was finished is not in the stream any more. What another
-- group had begun and not finished begins anew in this one; it was that of an older release, or of the installation that
-- the bus belonged to before, and is gone for good.
local stream, group = KEYS[1], ARGV[1]

local made = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  return made
end
for _, row in ipairs(call('XINFO', 'GROUPS', stream)) do
  if row[2] ~= group then
    call('XGROUP', 'DESTROY', stream, row[2])
  end
end
return 1
