-- Count a message of another bot in a room, once: 1 if it is to be heard. One of our own never is, nor is anybody after
-- BOT_TURNS_MAX of them without a person in between; while they go on, they do not get a new start.
local ours, spoken = unpack(KEYS)
local message, speaker = unpack(ARGV)

if call('SISMEMBER', ours, speaker) == 1 then
  return 0
end
if call('SISMEMBER', spoken, message) == 0 then
  if call('SCARD', spoken) >= BOT_TURNS_MAX then
    call('PEXPIRE', spoken, BOT_TURNS_WINDOW_MS)
    return 0
  end
  call('SADD', spoken, message)
end
call('PEXPIRE', spoken, BOT_TURNS_WINDOW_MS)
return 1
