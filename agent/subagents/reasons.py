"""Why a sub-agent did not complete: the word that its row keeps, and the words that a person would use. Pure.

A clause is for who wants to know, a model or the operator; a brief one for a line in a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.contracts.messages import own_words
from gateway.contracts.subagents import WORKER_LOST, TaskState
from gateway.words import ENGLISH, Sentence, Words, sentence

ALLOTMENT_SPENT: Final = own_words("allotment_spent")
BUDGET_SPENT: Final = own_words("budget_spent")
CANCELLED: Final = own_words("cancelled")
CRASHED: Final = own_words("crashed")
NOT_ALLOWED: Final = own_words("not_allowed")
PARENT_ENDED: Final = own_words("parent_ended")
STORE_AWAY: Final = own_words("store_unavailable")
TURN_ENDED: Final = own_words("turn_ended")

_KNOWN: Final[Mapping[str, Sentence]] = {
    WORKER_LOST: sentence("its process was lost with the worker that ran it"),
    ALLOTMENT_SPENT: sentence("the budget of all together is spent"),
    BUDGET_SPENT: sentence("today's allowance is spent"),
    CANCELLED: sentence("somebody ended it"),
    "closed_its_output": sentence("it fell silent"),
    CRASHED: sentence("what runs sub-agents failed"),
    "gave_up": sentence("it came to no answer"),
    NOT_ALLOWED: sentence("whoever asked for it may not have it any more"),
    "not_confined": sentence("it was not held as it has to be"),
    "not_ready": sentence("its process was not ready in time"),
    "not_started": sentence("its process could not be started"),
    PARENT_ENDED: sentence("the sub-agent that it worked for has ended"),
    STORE_AWAY: sentence("the database could not be reached"),
    TURN_ENDED: sentence("the turn that it worked for has ended"),
}
_KILLED: Final = re.compile(r"killed_by_signal_(\d+)")
_TOO_LONG: Final = re.compile(r"limit_([\d.]+)_s")
_PATTERNS: Final = (
    (_KILLED, sentence("its process was killed by signal {number}")),
    (_TOO_LONG, sentence("it took longer than {number} s")),
    (re.compile(r"exit_(\d+)"), sentence("its process ended with code {number}")),
    (re.compile(r"memory_over_(\d+)_mb"), sentence("it took more than {number} MB of memory")),
    (re.compile(r"processes_over_(\d+)"), sentence("it started more than {number} processes")),
)

_STOPPED: Final = sentence("stopped")
_SPENT: Final = sentence("the budget is spent")
_BRIEF: Final[Mapping[str, Sentence]] = {
    TURN_ENDED: _STOPPED,
    PARENT_ENDED: _STOPPED,
    CANCELLED: _STOPPED,
    WORKER_LOST: sentence("its process was lost"),
    BUDGET_SPENT: _SPENT,
    ALLOTMENT_SPENT: _SPENT,
}
_BRIEF_PATTERNS: Final = (
    (_KILLED, sentence("killed by signal {number}")),
    (_TOO_LONG, sentence("limit {number} s")),
)
_OF_STATES: Final = {
    TaskState.CANCELLED: _STOPPED,
    TaskState.TIMED_OUT: sentence("took too long"),
    TaskState.FAILED: sentence("failed"),
}


def in_words(reason: str, words: Words = ENGLISH) -> str:
    """A reason of `SubTask`, in English for a model; a clause that is none of ours is left as it reads."""
    return _said(reason, _KNOWN, _PATTERNS, words) or reason.replace("_", " ")


def in_brief(reason: str, words: Words) -> str:
    """The same for a line in a chat; "" for one that has no words of its own there."""
    return _said(reason, _BRIEF, _BRIEF_PATTERNS, words)


def without_reason(state: TaskState, words: Words) -> str:
    """What a line in a chat says of an end for which nobody has a reason."""
    return words.say(_OF_STATES[state]) if state in _OF_STATES else state.value


def _said(
    reason: str, known: Mapping[str, Sentence], patterns: Iterable[tuple[re.Pattern[str], Sentence]], words: Words
) -> str:
    if reason in known:
        return _plainly(known[reason], words)
    for pattern, clause in patterns:
        if found := pattern.fullmatch(reason):
            return _with_number(clause, found[1], words)
    return ""


def _plainly(clause: Sentence, words: Words) -> str:
    return words.say(clause)


def _with_number(clause: Sentence, number: str, words: Words) -> str:
    return words.say(clause, number=number)
