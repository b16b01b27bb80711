-- Spend one token of each bucket, or none at all: then answers how many ms to wait before asking again.
-- ARGV: three numbers for each bucket, see `take`.
return take(KEYS, ARGV, now_ms())
