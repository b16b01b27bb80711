"""How near the scrubber is to its goals: `make bench-scrub`."""
