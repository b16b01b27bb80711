-- Publish one reply, unless its id is known or the ledger says that its delivery has begun.
-- Answers 1, or 0 when it was skipped.
local stream, outbound_channels, ledger = unpack(KEYS)
local channel, published, digest, envelope, news = unpack(ARGV)

if call('EXISTS', ledger) == 1 then
  return 0
end
return publish(news, stream, outbound_channels, channel, published, digest, envelope, now_ms())
