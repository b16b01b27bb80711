"""Why a sub-agent did not complete, in words that a person would use. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.contracts.subagents import WORKER_LOST
from gateway.words import ENGLISH, Sentence, Words, sentence

_KNOWN: Final = {
    WORKER_LOST: sentence("its process was lost with the worker that ran it"),
    "budget_spent": sentence("today's allowance is spent"),
    "cancelled": sentence("somebody ended it"),
    "closed_its_output": sentence("it fell silent"),
    "crashed": sentence("what runs sub-agents failed"),
    "gave_up": sentence("it came to no answer"),
    "not_confined": sentence("it was not held as it has to be"),
    "not_ready": sentence("its process was not ready in time"),
    "not_started": sentence("its process could not be started"),
    "parent_ended": sentence("the sub-agent that it worked for has ended"),
    "store_unavailable": sentence("the database could not be reached"),
    "turn_ended": sentence("the turn that it worked for has ended"),
}
_PATTERNS: Final = (
    (re.compile(r"killed_by_signal_(\d+)"), sentence("its process was killed by signal {number}")),
    (re.compile(r"limit_([\d.]+)_s"), sentence("it took longer than {number} s")),
    (re.compile(r"exit_(\d+)"), sentence("its process ended with code {number}")),
    (re.compile(r"memory_over_(\d+)_mb"), sentence("it took more than {number} MB of memory")),
    (re.compile(r"processes_over_(\d+)"), sentence("it started more than {number} processes")),
)


def in_words(reason: str, words: Words = ENGLISH) -> str:
    """A reason of `SubTask`, in English for a model; a clause that is none of ours is left as it reads."""
    if reason in _KNOWN:
        return words.say(_KNOWN[reason])
    for pattern, clause in _PATTERNS:
        if found := pattern.fullmatch(reason):
            return _with_number(clause, found[1], words)
    return reason.replace("_", " ")


def _with_number(clause: Sentence, number: str, words: Words) -> str:
    return words.say(clause, number=number)
