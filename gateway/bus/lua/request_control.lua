-- Put a control command on the control lane. A stop also cancels the running turn and drops what waits.
-- Answers 1, or 0 for a message id that was seen before.
local mailbox, ready, delay, own, attempts, total, control = unpack(KEYS)
local lane, handle, envelope, seen, digest = unpack(ARGV, 1, 5)
local is_stop, cancels_prefix, cancel_channel_prefix = ARGV[6] == '1', ARGV[7], ARGV[8]

local now = now_ms()
if is_known(seen, digest, now) then
  return 0
end

local worker, fence, in_work = owner_of(own, lane)
local dropped = 0
if is_stop and worker then
  dropped = call('LLEN', mailbox) - in_work
  call('LTRIM', mailbox, 0, in_work - 1)
  -- Published for speed, kept for certainty: the next beat reads the list.
  local cancel = lane .. '\31' .. fence
  call('PUBLISH', cancel_channel_prefix .. worker, cancel)
  call('RPUSH', cancels_prefix .. worker, cancel)
  call('PEXPIRE', cancels_prefix .. worker, CANCEL_TTL_MS)
elseif is_stop then
  dropped = call('LLEN', mailbox)
  call('DEL', mailbox)
  call('LREM', ready, 0, handle)
  call('ZREM', delay, handle)
  call('HDEL', attempts, lane)
end
if dropped > 0 then
  call('DECRBY', total, dropped)
end

call('XADD', control, 'MAXLEN', '~', CONTROL_REQUESTS_MAX, '*',
  'e', envelope, 'dropped', dropped, 'running', worker and 1 or 0)
remember(seen, digest, now)
return 1
