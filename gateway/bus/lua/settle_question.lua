-- Settle a question to a person, or close it (an empty answer); the first one counts.
-- Answers its fields as they stand now, none for a question that nobody knows.
local question = KEYS[1]
local answer = ARGV[1]

if call('HGET', question, 'state') == 'open' then
  call('HSET', question, 'state', 'settled', 'answer', answer)
end
return call('HGETALL', question)
