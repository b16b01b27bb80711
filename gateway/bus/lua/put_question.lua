-- Open a question to a person, unless its code is known.
local question = KEYS[1]
local ttl_ms, reply, asked_by, fence, digest, task_id = unpack(ARGV)

if call('EXISTS', question) == 1 then
  return 0
end
call('HSET', question, 'state', 'open', 'reply', reply, 'asked_by', asked_by, 'fence', fence, 'digest', digest,
  'task_id', task_id)
call('PEXPIRE', question, ttl_ms)
return 1
