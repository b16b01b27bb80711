-- Open a question to people, unless its code is known. What they read of it comes last, one envelope each.
local question = KEYS[1]
local ttl_ms, key, asked_by, fence, digest, task_id = unpack(ARGV, 1, 6)

if call('EXISTS', question) == 1 then
  return 0
end
call('HSET', question, 'state', 'open', 'key', key, 'asked_by', asked_by, 'fence', fence, 'digest', digest,
  'task_id', task_id)
for at = 7, #ARGV do
  call('HSET', question, 'reply' .. at - 6, ARGV[at])
end
call('PEXPIRE', question, ttl_ms)
return 1
