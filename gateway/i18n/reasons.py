"""The words for every reason, refusal and shortfall: what happened, and what a model may do instead. Pure.

A test pins that no code is without its row."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.contracts.errors import OF_CHILDREN, Code, NoSubAgent, Reason, Shortfall
from gateway.contracts.subagents import TaskState
from gateway.i18n import ENGLISH, Sentence, Words, sentence


@dataclass(frozen=True, slots=True)
class Wording:
    """One row. `happened` is a clause; `brief` says the same in a line of a chat, where that would be long. `instead`
    is an order to a model, without a full stop."""

    happened: Sentence
    instead: str
    brief: Sentence | None = None


@dataclass(frozen=True, slots=True)
class ModelWording:
    """The same of what only a model reads: it is English."""

    happened: str
    instead: str


_ONCE_MORE: Final = "try once more; if it happens again, do this part yourself"
_YOURSELF: Final = "do this part yourself"
_LESS_AT_A_TIME: Final = "give it less at a time: a smaller part, fewer or smaller files"
_SMALLER: Final = "split the task into smaller ones"
_IF_IT_MATTERS: Final = "have it done again if it still matters"
_FEWER_AT_ONCE: Final = "tell it to run fewer things at once"
_LOOK: Final = "look at what each of them said, and mend the tasks or do the rest yourself"

_STOPPED: Final = sentence("stopped")
_SPENT: Final = sentence("the budget is spent")

WORDINGS: Final[Mapping[Reason | NoSubAgent, Wording]] = {
    # How a sub-agent ends.
    Reason.ALLOTMENT_SPENT: Wording(
        sentence("the budget of all together is spent"), "make do with what there is, or ask for less", _SPENT
    ),
    Reason.BUDGET_SPENT: Wording(
        sentence("today's allowance is spent"), "start no more of them, and say what there is", _SPENT
    ),
    Reason.CANCELLED: Wording(
        sentence("somebody ended it"), "do not have it done again unless you are asked to", _STOPPED
    ),
    Reason.CRASHED: Wording(sentence("what runs sub-agents failed"), _ONCE_MORE),
    Reason.NOT_ALLOWED: Wording(
        sentence("whoever asked for it may not have it any more"), "do not have it done again for this person"
    ),
    Reason.PARENT_ENDED: Wording(sentence("the sub-agent that it worked for has ended"), _IF_IT_MATTERS, _STOPPED),
    Reason.STORE_AWAY: Wording(sentence("the database could not be reached"), "try again in a moment"),
    Reason.TURN_ENDED: Wording(sentence("the turn that it worked for has ended"), _IF_IT_MATTERS, _STOPPED),
    Reason.WORKER_LOST: Wording(
        sentence("its process was lost with the worker that ran it"), _IF_IT_MATTERS, sentence("its process was lost")
    ),
    Reason.TOO_LONG: Wording(
        sentence("it took longer than {number} s"),
        f"{_SMALLER}, or raise `limit_s` if you had set one",
        sentence("limit {number} s"),
    ),
    Reason.NOT_STARTED: Wording(sentence("its process could not be started"), _YOURSELF),
    Reason.NOT_READY: Wording(sentence("its process was not ready in time"), _ONCE_MORE),
    Reason.NOT_CONFINED: Wording(sentence("it was not held as it has to be"), _YOURSELF),
    Reason.KILLED: Wording(
        sentence("its process was killed by signal {number}"), _ONCE_MORE, sentence("killed by signal {number}")
    ),
    Reason.EXITED: Wording(sentence("its process ended with code {number}"), _ONCE_MORE),
    Reason.SILENT: Wording(sentence("it fell silent"), _ONCE_MORE),
    Reason.GAVE_UP: Wording(
        sentence("it came to no answer"), "say more exactly what it has to bring, or do this part yourself"
    ),
    Reason.MEMORY: Wording(sentence("it took more than {number} MB of memory"), _LESS_AT_A_TIME),
    Reason.PROCESSES: Wording(sentence("it started more than {number} processes"), _FEWER_AT_ONCE),
    Reason.THREADS: Wording(sentence("it started more than {number} threads"), _FEWER_AT_ONCE),
    Reason.WORKSPACE_FULL: Wording(
        sentence("it filled the workspace beyond what it may hold"), "make room in the workspace, or have it write less"
    ),
    Reason.TOO_MANY_FRAMES: Wording(sentence("it said more than one may say: too many pieces"), _SMALLER),
    Reason.TOO_MANY_BYTES: Wording(sentence("it said more than one may say: too many bytes"), _SMALLER),
    Reason.NOT_UNDERSTOOD: Wording(sentence("too much of what it said could not be understood"), _ONCE_MORE),
    Reason.BROKE_DOWN: Wording(sentence("it could not go on"), _ONCE_MORE),
    # How one ends by its own account.
    Reason.FRAME_TOO_LONG: Wording(sentence("it had more to say at once than it may"), _LESS_AT_A_TIME),
    Reason.MODEL_FAILED: Wording(sentence("the model did not answer"), "try again in a moment"),
    Reason.OUT_OF_MEMORY: Wording(sentence("it had no memory left"), _LESS_AT_A_TIME),
    Reason.PROMPT_TOO_LONG: Wording(sentence("it had more to read than its model takes"), _LESS_AT_A_TIME),
    Reason.PROTOCOL: Wording(
        sentence("its process speaks another protocol ({number}): half of an upgrade is missing"), _YOURSELF
    ),
    Reason.RAISED: Wording(sentence("its process failed ({name})"), _ONCE_MORE),
    Reason.ROUNDS_SPENT: Wording(sentence("it has used all its rounds"), _SMALLER),
    # Why none is to be had.
    NoSubAgent.CROWDED: Wording(sentence("too many sub-agents wait to be started"), "wait for some of them first"),
    NoSubAgent.FORGOTTEN: Wording(
        sentence("this sub-agent was forgotten, with all that belongs to its user"),
        "do not have it done again unless you are asked to",
    ),
    NoSubAgent.NO_CONVERSATION: Wording(sentence("there is no conversation for a sub-agent to work for"), _YOURSELF),
    NoSubAgent.NO_TASK: Wording(sentence("a sub-agent needs a task"), "say in `task` all that it has to know"),
    NoSubAgent.NOBODY_TO_WAKE: Wording(
        sentence("nothing can wake this conversation later"), "have a sub-agent that is waited for (sub_agent)"
    ),
    NoSubAgent.SWITCHED_OFF: Wording(sentence("sub-agents are switched off"), _YOURSELF),
    NoSubAgent.TASK_TOO_LONG: Wording(
        sentence("a sub-agent's task has at most {number} characters"),
        "shorten it; what is long goes into a file that it reads",
    ),
    NoSubAgent.TOO_DEEP: Wording(sentence("sub-agents are at most {number} deep"), _YOURSELF),
    NoSubAgent.TYPE_OFF: Wording(
        sentence("sub-agents of type {name} are switched off: their list of tools is empty"),
        "choose another type, or do this part yourself",
    ),
    NoSubAgent.TYPE_UNKNOWN: Wording(
        sentence("there is no sub-agent {name}; there are: {types}"), "choose one of these"
    ),
    NoSubAgent.WOKEN_OFTEN: Wording(
        sentence(
            "sub-agents in the background have woken this conversation {number} times without a word of its person"
        ),
        "say what there is and ask how to go on, or have sub-agents that are waited for (sub_agent)",
    ),
}
"""One row for each."""

SHORTFALLS: Final[Mapping[Shortfall, ModelWording]] = {
    Shortfall.ALL_FAILED: ModelWording("all {parts} failed", _LOOK),
    Shortfall.LAST_FAILED: ModelWording(
        "{who} failed ({problem})", "make the answer yourself of what the others have brought"
    ),
    Shortfall.NOT_APPROVED: ModelWording(
        "the work was not approved in {number} iteration(s)",
        "mend the last draft as the reviewer says, or ask for more `rounds`",
    ),
    Shortfall.NOT_SPLIT: ModelWording(
        "the lead did not split the work into parts: {problem}", "split the work yourself, and use parallel or graph"
    ),
    Shortfall.SOME_FAILED: ModelWording("{number} of {all} steps failed: {steps}", _LOOK),
    Shortfall.STEP_FAILED: ModelWording("{step} failed ({problem})", _LOOK),
    Shortfall.TIME_UP: ModelWording("the time was up", "ask for less, or raise `limit_s` if you had set one"),
    Shortfall.TOO_FEW_SIDES: ModelWording("fewer than two sides have spoken", _LOOK),
}
"""One row for each."""

_OF_STATES: Final = {
    TaskState.CANCELLED: _STOPPED,
    TaskState.TIMED_OUT: sentence("took too long"),
    TaskState.FAILED: sentence("failed"),
}


def _pattern(code: str) -> re.Pattern[str]:
    parts = re.escape(code).replace(r"\{number\}", r"(?P<number>\d[\d.]{0,19})")
    return re.compile(parts.replace(r"\{name\}", r"(?P<name>[A-Za-z_]\w{0,63})"), re.ASCII)


_OWN_DIGITS_MAX: Final = 3  # of the number of a protocol
_EXCEPTIONS: Final = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
)
_PATTERNS: Final = {reason: _pattern(reason) for reason in sorted(Reason, key=lambda reason: "{" in reason)}
"""The reasons without a place for a value come first."""


def own_code_of(said: str) -> Code | None:
    """Return what a child said of its end, if it is a code that children have; None for anything else. The code is
    shown as it is, so its figure must carry nothing: a number of a few digits, or the name of an exception that
    Python has."""
    for reason in OF_CHILDREN:
        if found := _PATTERNS[reason].fullmatch(said):
            figures = found.groupdict()
            is_short = len(figures.get("number", "")) <= _OWN_DIGITS_MAX
            return Code(said) if is_short and figures.get("name", "Exception") in _EXCEPTIONS else None
    return None


def in_words(code: str, words: Words = ENGLISH) -> str:
    """Return the clause for the code of a reason; for an unknown code the code itself."""
    wording, values = _row(code)
    return code.replace("_", " ") if wording is None else _say(wording.happened, words, values)


def in_brief(code: str, words: Words) -> str:
    """Return the short form of a reason for a line in a chat; "" for an unknown code."""
    wording, values = _row(code)
    return "" if wording is None else _say(wording.brief or wording.happened, words, values)


def without_reason(state: TaskState, words: Words) -> str:
    """Describe, for a line in a chat, an end without a reason."""
    return words.say(_OF_STATES[state]) if state in _OF_STATES else state.value


def refused(refusal: NoSubAgent, words: Words, values: Mapping[str, str | int]) -> str:
    """Return the clause for a refusal; `values` are what it names."""
    return _say(WORDINGS[refusal].happened, words, values)


def instead_of(known: str) -> str:
    """Return what a model may do after a refusal or a reason's code, as an order; "" for an unknown one."""
    wording = WORDINGS[known] if isinstance(known, NoSubAgent) else _row(known)[0]
    return "" if wording is None else wording.instead


def what_now(instead: str) -> str:
    """Return such an order as it follows the sentence that tells what happened; "" for none."""
    return f" What now: {instead}." if instead else ""


def _row(code: str) -> tuple[Wording | None, Mapping[str, str]]:
    for reason, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(code):
            return WORDINGS[reason], found.groupdict()
    return None, {}


def _say(clause: Sentence, words: Words, values: Mapping[str, str | int]) -> str:
    return words.say(clause, **values)
