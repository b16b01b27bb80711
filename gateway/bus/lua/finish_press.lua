-- Hand the answer to whoever waits for it at the channel, and acknowledge the press of a button.
local control, told = unpack(KEYS)
local group, entry, envelope = unpack(ARGV)

call('RPUSH', told, envelope)
call('PEXPIRE', told, TOLD_TTL_MS)
call('XACK', control, group, entry)
call('XDEL', control, entry)
return 1
