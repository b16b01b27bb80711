-- One consistent look at the queue.
-- Answers {queued, ready, running, delayed, dead, workers, {channel, pending...}, {channel, state...}, oldest ms}.
local total, ready, own, delay, dead_letters, workers, outbound_channels, reports = unpack(KEYS)
local outbound_prefix, mailboxes = unpack(ARGV)

local now = now_ms()
local pending = {}
for _, channel in ipairs(call('SMEMBERS', outbound_channels)) do
  pending[#pending + 1] = channel
  pending[#pending + 1] = call('XLEN', outbound_prefix .. channel)
end
local states = {}
local rows = call('HGETALL', reports)
for position = 1, #rows, 2 do
  local ends, state = string.match(rows[position + 1], '^(%d+)|(.*)$')
  if tonumber(ends) > now then
    states[#states + 1] = rows[position]
    states[#states + 1] = state
  end
end
local oldest = 0
for _, handle in ipairs(call('LRANGE', ready, 0, OLDEST_AMONG - 1)) do
  local message = call('LINDEX', mailboxes .. string.match(handle, '^[^\31]*'), 0)
  oldest = math.max(oldest, message and now - tonumber(string.sub(message, 1, 13)) or 0)
end
return {
  tonumber(call('GET', total) or '0'), call('LLEN', ready), call('HLEN', own), call('ZCARD', delay),
  call('XLEN', dead_letters), call('ZCOUNT', workers, '(' .. whole(now), '+inf'), pending, states, oldest,
}
