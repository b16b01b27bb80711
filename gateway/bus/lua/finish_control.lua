-- Publish the answer to a control command and acknowledge the command.
local control, stream, outbound_channels = unpack(KEYS)
local group, entry, channel, published, digest, envelope, news = unpack(ARGV)

publish(news, stream, outbound_channels, channel, published, digest, envelope, now_ms())
call('XACK', control, group, entry)
call('XDEL', control, entry)
return 1
