"""Ways to run work: on a thread of its own, in the background, until it is answered, under time limits."""
