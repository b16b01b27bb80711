-- End the running turn of a lane and drop what waits in it, without a word to anybody. Answers 1.
local handle = unpack(ARGV, 7)

stop(lane_of(handle), handle)
return 1
