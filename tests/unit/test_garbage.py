"""Garbage of a process that has loaded: looked for seldom, and found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gateway.scrub import Scrubber
from tests.parts.garbage import garbage_of_ours

ROOT = Path(__file__).parents[2]
PROGRAM = """
import gc
from gateway.process import end_loading

class Ring:
    left = 0
    def __init__(self):
        self.itself = self
    def __del__(self):
        Ring.left -= 1

end_loading()
looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
in_use = [[] for _ in range(5_000)]  # many times what a message takes
looked_early = bool(looks)
for _ in range(50_000):
    Ring.left += 1
    Ring()
print(looked_early, Ring.left < 25_000)
"""


def test_the_objects_of_a_message_make_nobody_look_for_garbage_and_what_is_garbage_goes() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert ran.stdout.split() == [b"False", b"True"]


def test_what_a_text_needed_to_be_scrubbed_is_gone_at_once() -> None:
    scrubber = Scrubber()
    scrubber.scrub("the first text makes the machines' tables")
    with garbage_of_ours() as left:
        scrubber.for_chat("telegram:1").scrub("Could you tell me what is in c2VjcmV0IGlzIG5vdGhpbmc= today?")
    assert left == set()
