-- Move an entry that nobody can read from its stream to the dead letters.
local stream, dead_letters = unpack(KEYS)
local group, entry, envelope, failure = unpack(ARGV)

if call('XACK', stream, group, entry) == 1 then
  call('XDEL', stream, entry)
  call('XADD', dead_letters, 'MAXLEN', '~', DEAD_LETTERS_MAX, '*',
    'e', envelope, 'reason', 'unreadable', 'attempts', 0, 'error', failure)
  return 1
end
return 0
