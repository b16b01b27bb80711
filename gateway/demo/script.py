"""What is said in the headless demo, and what has to come back: the same on every platform. Data only.

The words are those that `demo/scripted` understands: say, remember, recall, history, long, split.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Where(Enum):
    """The places of the demo."""

    DIRECT = "direct message"
    GROUP = "group"
    THREAD = "thread"


SECRET: Final = "-".join(("sk", "proj", "T3BlbkFJq7Xw2Zr9Lm4Vt8Kc1Pd6Hs5Ny0Bg"))
"""Looks like a key and opens nothing; put together here so that no scanner of repositories stumbles over it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Somebody writes, the bot answers (or, with `is_answered` false, has to keep silent).

    `expects` must and `forbids` must not stand in the answer, all its messages joined; `messages_min` is into
    how many messages the platform's limit has to split it; `ends_with` shows that the answer is complete; so many
    `sub_agents` work on it.
    """

    who: str
    where: Where
    says: str
    mentions: bool = False
    is_answered: bool = True
    expects: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    ends_with: str = ""
    messages_min: int = 1
    sub_agents: int = 0


ADA: Final = "Ada"
BEN: Final = "Ben"
PEOPLE: Final = (ADA, BEN)
LONG_CHARS: Final = 9_000  # over the limit of each platform, so that each has to split
STEPS: Final = (
    Step(ADA, Where.DIRECT, "say Good morning from the demo.", expects=("Good morning from the demo.",)),
    Step(ADA, Where.DIRECT, "remember my boat is called Teal Heron", expects=("Teal Heron",)),
    Step(ADA, Where.DIRECT, f"say my key is {SECRET}", expects=("my key is",), forbids=(SECRET, SECRET[8:])),
    Step(ADA, Where.DIRECT, "history", expects=("4 message(s)",), forbids=(SECRET, SECRET[8:])),
    Step(BEN, Where.DIRECT, "recall boat", forbids=("Teal Heron",)),
    Step(BEN, Where.DIRECT, "history", expects=("2 message(s)",), forbids=("Good morning", "my key is")),
    Step(
        BEN,
        Where.DIRECT,
        f"long {LONG_CHARS}",
        expects=("A long answer of about", "line_40 = 40", "paragraph is number 9 of"),
        ends_with="The end of the long answer.",
        messages_min=2,
    ),
    Step(ADA, Where.GROUP, "nobody asked the bot", is_answered=False),
    Step(ADA, Where.GROUP, "say Hello, group.", mentions=True, expects=("Hello, group.",)),
    Step(BEN, Where.GROUP, "history", mentions=True, expects=("1 message(s)",), forbids=("Hello, group.",)),
    Step(ADA, Where.THREAD, "say Hello, thread.", mentions=True, expects=("Hello, thread.",)),
    Step(
        ADA,
        Where.DIRECT,
        "split say The bow is dry. | say The stern is dry.",
        expects=("The sub-agents answered:", "The bow is dry.", "The stern is dry."),
        sub_agents=2,
    ),
    Step(
        BEN,
        Where.DIRECT,
        "split say The mast stands. | fail",
        expects=("The sub-agents answered: 1 of 2 completed.", "The mast stands.", "failed", "/retry"),
        sub_agents=2,
    ),
)
