"""Why a sub-agent did not complete, in words that a person would use. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.contracts.subagents import WORKER_LOST

_KNOWN: Final = {
    WORKER_LOST: "its process was lost with the worker that ran it",
    "budget_spent": "today's allowance is spent",
    "cancelled": "somebody ended it",
    "closed_its_output": "it fell silent",
    "crashed": "what runs sub-agents failed",
    "gave_up": "it came to no answer",
    "not_confined": "it was not held as it has to be",
    "not_ready": "its process was not ready in time",
    "not_started": "its process could not be started",
    "parent_ended": "the sub-agent that it worked for has ended",
    "store_unavailable": "the database could not be reached",
    "turn_ended": "the turn that it worked for has ended",
}
_PATTERNS: Final = (
    (re.compile(r"killed_by_signal_(\d+)"), r"its process was killed by signal \1"),
    (re.compile(r"limit_([\d.]+)_s"), r"it took longer than \1 s"),
    (re.compile(r"exit_(\d+)"), r"its process ended with code \1"),
    (re.compile(r"memory_over_(\d+)_mb"), r"it took more than \1 MB of memory"),
    (re.compile(r"processes_over_(\d+)"), r"it started more than \1 processes"),
)


def in_words(reason: str) -> str:
    """A reason of `SubTask`; a clause that is none of ours is left as it reads."""
    if reason in _KNOWN:
        return _KNOWN[reason]
    for pattern, words in _PATTERNS:
        if pattern.fullmatch(reason):
            return pattern.sub(words, reason)
    return reason.replace("_", " ")
