"""Coverage-guided fuzzing of the scrubber: `make fuzz MINUTES=60`.

`inputs` makes texts of the fuzzer's bytes, `promises` says what must hold for every text, `target` is what runs inside
the fuzzer, `__main__` starts it in an environment of its own. What was found stands in `found/`, one file for each,
and a property test replays them all.
"""
