"""Texts of questions to people and of their ends. CommonMark, without filler. Pure.

What a model wrote is in a fence that it cannot close, whole, and with escapes for all that nobody sees: nothing in
it can pass for a word of ours or hide from its reader."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.contracts.access import PlaceApproval
from gateway.contracts.messages import ControlKind
from gateway.i18n import Words, sentence

QUESTION_PREFIX: Final = "ask:"
"""The prefix of the ids of questions, and of all that belongs to them."""


class Duration(StrEnum):
    """The duration of an approval: the word after the code."""

    ONCE = ""
    TURN = "turn"
    ALWAYS = "always"


_ANSWER: Final = re.compile(r"([A-Z2-9]{4,16})(?: +(TURN|ALWAYS))?", re.IGNORECASE)
_FENCE: Final = "```"
_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that no font shows although Unicode calls them letters, marks or symbols."""
_ASCII_MAX: Final = "\x7f"
_NAME_MARKS: Final = re.compile(r"[^\w .-]")

FOREIGN: Final = "foreign"
"""Stands for a risk where the model may only do what others wrote."""

_CLAUSES: Final = {
    FOREIGN: sentence("I have just read what others wrote, so I ask before I keep anything for later."),
    "read": sentence("It reads."),
    "write": sentence("It changes files or data."),
    "execute": sentence("It runs a program."),
    "network": sentence("It reaches out to the network."),
    "spend": sentence("It spends money."),
}


def tool_question(tool: str, why: str, arguments: Mapping[str, Any], words: Words) -> str:
    """Ask whether a call may run, and show all of its arguments as JSON. `why` is a risk or FOREIGN."""
    asked = words.say("May I run `{tool}`?", tool=plain_name(tool, words))
    clause = words.say(_CLAUSES[why]) if why in _CLAUSES else ""
    shown = visible(json.dumps(arguments, ensure_ascii=False, indent=1)).replace(_FENCE, r"\u0060" * len(_FENCE))
    return f"{asked} {clause}\n\n{_FENCE}\n{shown}\n{_FENCE}"


def visible(text: str) -> str:
    """Write what nobody sees (control and format characters, odd spaces and line ends) as `\\u` escapes, as JSON has
    them; a line feed stays."""
    return "".join(_escaped(char) if _is_unseen(char) else char for char in text)


def _is_unseen(char: str) -> bool:
    if char in " \n" or " " < char < _ASCII_MAX:
        return False
    return unicodedata.category(char) in _UNSEEN_KINDS or _UNSEEN.match(char) is not None


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != _ASCII_MAX else r"\u007f"


def answer_to(kind: ControlKind, code: str, lasts: Duration) -> str:
    """Write what people answer."""
    return f"/{kind.value} {code} {lasts.value}".rstrip()


def code_in(kind: ControlKind, argument: str) -> str:
    """Read which question an answer is to, from what follows its command. Empty: there is no such answer."""
    found = _ANSWER.fullmatch(argument)
    return found[1].upper() if found and (kind is ControlKind.APPROVE or not found[2]) else ""


def lasts_of(answer: str) -> Duration:
    """Read for how long an answer with a code counts: its last word says so."""
    last = answer.strip().lower().rpartition(" ")[2]
    return next((lasts for lasts in Duration if lasts.value == last), Duration.ONCE)


def question_text(text: str, code: str, words: Words, *, minutes: int, more: str = "") -> str:
    """Write the question with the words that answer it; `more` names further answers."""
    waits = words.say(
        "Waits {time} for `/approve {code}` or `/deny {code}`.",
        time=words.count("{count} minute", "{count} minutes", max(minutes, 1)),
        code=code,
    )
    return f"{text}\n\n{' '.join(filter(None, (waits, more)))}"


def turn_text(code: str, tool: str, words: Words) -> str:
    """Say what it means to approve a tool for a turn."""
    return words.say(
        "`/approve {code} turn` approves every call of `{tool}` in this turn.", code=code, tool=plain_name(tool, words)
    )


def always_text(code: str, approval: PlaceApproval, words: Words) -> str:
    """Say what it means to approve for good."""
    return words.say(
        _ALWAYS[bool(approval.digest)],
        code=code,
        tool=plain_name(approval.tool, words),
        place=str(approval.place),
        role=approval.role.value,
    )


_ALWAYS: Final = {
    True: sentence(
        "`/approve {code} always` approves this very call of `{tool}` in `{place}` from now on, for the role `{role}` "
        "and above."
    ),
    False: sentence(
        "`/approve {code} always` approves every call of `{tool}` in `{place}` from now on, for the role `{role}` and "
        "above."
    ),
}
"""By whether one call is meant, or every call."""


def admins_asked_text(words: Words, *, minutes: int) -> str:
    """Tell the asking person that admins are asked; `ended_text` puts how it ended in the place of the last line."""
    asked = words.say("This needs the approval of an admin, and I have asked for it.")
    waits = words.say(
        "Waits {time} for the answer.", time=words.count("{count} minute", "{count} minutes", max(minutes, 1))
    )
    return f"{asked}\n\n{waits}"


def ended_text(question: str, ending: str) -> str:
    """Write the text that replaces a `question_text` once it is settled: how it ended instead of how to answer."""
    asked, _, _ = question.rpartition("\n\n")
    return f"{asked}\n\n{ending}"


def ending_by(kind: ControlKind, lasts: Duration, name: str, words: Words) -> str:
    """Say how a person settled the question."""
    return words.say(_SETTLED[kind, lasts], name=plain_name(name, words))


def ended_by_choice(label: str, name: str, words: Words) -> str:
    """Say which button a person pressed; this is put under a text whose buttons are gone."""
    return words.say("**{label}**, chosen by {name}.", label=plain_name(label, words), name=plain_name(name, words))


_SETTLED: Final = {
    (ControlKind.APPROVE, Duration.ONCE): sentence("**Approved** by {name}."),
    (ControlKind.APPROVE, Duration.TURN): sentence("**Approved for this turn** by {name}."),
    (ControlKind.APPROVE, Duration.ALWAYS): sentence(
        "**Approved for good in that place** by {name}. `/place` shows it there, and takes it back."
    ),
    (ControlKind.DENY, Duration.ONCE): sentence("**Denied** by {name}."),
}

ASKED_FOR: Final = sentence("`{person}` asks for something that an admin has to approve.")
EXPIRED: Final = sentence("**Nobody answered in time**, so it was not done.")
WITH_THE_TURN: Final = sentence("**Approved** with the other calls of this turn.")
WITHDRAWN: Final = sentence("**No longer open.**")

APPROVE_LABEL: Final = sentence("Approve")
DENY_LABEL: Final = sentence("Deny")
TURN_LABEL: Final = sentence("For this turn")
ALWAYS_LABELS: Final = {True: sentence("Always in that place"), False: sentence("Always in this place")}
"""By whether the reader is elsewhere."""

DONE_WORDS: Final = {ControlKind.APPROVE: sentence("Approved."), ControlKind.DENY: sentence("Denied.")}
NOT_OPEN_WORD: Final = sentence("This question is no longer open.")
NOT_YOURS_WORD: Final = sentence("Only the person I asked, or an admin, can answer this.")
ONCE_WORD: Final = sentence("This can only be approved for this one call: `/approve {code}`.")
NO_CODE_WORD: Final = sentence("Say which question, with the code below it: `/approve CODE` or `/deny CODE`.")


def settled_word(ending: str, words: Words) -> str:
    """Tell a person whose answer came too late how the question was settled."""
    return words.say("That is settled already. {ending}", ending=ending)


def plain_name(name: str, words: Words) -> str:
    """Escape a name for use in our sentence, so that none of its characters formats anything."""
    return " ".join(_NAME_MARKS.sub(" ", name).split()) or words.say("somebody")
