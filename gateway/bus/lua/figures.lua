-- One consistent look at the queue.
-- Answers {queued, ready, running, delayed, dead, workers, {channel, pending...}, {channel, state...}}.
local total, ready, own, delay, dead_letters, workers, outbound_channels, reports = unpack(KEYS)
local outbound_prefix = ARGV[1]

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
return {
  tonumber(call('GET', total) or '0'), call('LLEN', ready), call('HLEN', own), call('ZCARD', delay),
  call('XLEN', dead_letters), call('ZCOUNT', workers, '(' .. whole(now), '+inf'), pending, states,
}
