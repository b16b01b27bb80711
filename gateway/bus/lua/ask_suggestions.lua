-- Ask for suggestions, unless the same person has asked too often. Answers 1, or 0.
local asked, asking = unpack(KEYS)
local entry = ARGV[1]

if spend(asking, SUGGESTIONS_PER_S, SUGGESTIONS_BURST, 0, now_ms()) > 0 then
  return 0
end
call('RPUSH', asked, entry)
call('LTRIM', asked, -SUGGESTIONS_ASKED_MAX, -1)
call('PEXPIRE', asked, SUGGESTIONS_TTL_MS)
return 1
