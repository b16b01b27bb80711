-- Let go of a named lease, if it is ours.
if call('GET', KEYS[1]) == ARGV[1] then
  call('DEL', KEYS[1])
end
return 1
