-- Acknowledge and delete entries of a stream. ARGV: group, then ids.
local stream, group = KEYS[1], ARGV[1]
for position = 2, #ARGV do
  call('XACK', stream, group, ARGV[position])
  call('XDEL', stream, ARGV[position])
end
return #ARGV - 1
