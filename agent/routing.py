"""How hard a message looks, for choosing a model by its price. Pure, and no model is asked (agent.md section 4).

The first rule that speaks decides; what would destroy something never goes to the cheapest model.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Final

from agent.limits import (
    ROUTING_LINES_MAX,
    ROUTING_LONG_CHARS,
    ROUTING_LOOK_UP_CHARS,
    ROUTING_MESSAGES_MAX,
    ROUTING_SHORT_CHARS,
    ROUTING_TINY_CHARS,
    ROUTING_TOOL_CALLS_MAX,
)
from agent.transcript import said_in, summary_of
from gateway.contracts.entries import Entry, Role


class Tier(StrEnum):
    """What a message deserves."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Depth:
    """How far a session has gone."""

    messages: int = 0
    tool_calls: int = 0

    @classmethod
    def of(cls, view: Sequence[Entry]) -> Depth:
        """Of what the model has in view; what a summary stands for counts by its entries."""
        spoken = sum(entry.role is not Role.TOOL for entry in said_in(view))
        summed_up = view[0].tail_start_seq - 1 if summary_of(view) is not None else 0
        return cls(spoken + summed_up, sum(len(entry.tool_calls) for entry in view))


def tier_of(said: str, depth: Depth) -> Tier:
    """The tier for a message that is said at that depth of a session."""
    text = " ".join(unicodedata.normalize("NFKC", said).casefold().split())
    tier = _tier(said, text, depth)
    return Tier.MEDIUM if tier is Tier.LOW and _DESTRUCTIVE.search(text) else tier


def _tier(said: str, text: str, depth: Depth) -> Tier:
    if _is_look_up(text):
        return Tier.LOW
    if _BIG.search(text):
        return Tier.HIGH
    if _weight(text) < ROUTING_SHORT_CHARS and (_GREETING.match(text) or _ONE_STEP.match(text) or _asks(text)):
        return Tier.LOW
    if depth.tool_calls > ROUTING_TOOL_CALLS_MAX or depth.messages > ROUTING_MESSAGES_MAX:
        return Tier.HIGH
    if _weight(text) > ROUTING_LONG_CHARS:
        return Tier.HIGH
    if "```" in said or said.count("\n") > ROUTING_LINES_MAX:
        return Tier.MEDIUM
    return Tier.LOW if _weight(text) < ROUTING_TINY_CHARS else Tier.MEDIUM


def _is_look_up(text: str) -> bool:
    """A short question *about* something, however big the word; one about our own things is a task."""
    return _weight(text) <= ROUTING_LOOK_UP_CHARS and _asks(text) and not _BEYOND.search(text)


def _asks(text: str) -> bool:
    return bool(_ASKING.match(text))


def _weight(text: str) -> int:
    """Its length in letters of an alphabet: a Chinese or Japanese character says about three of them."""
    return len(text) + 2 * len(_IDEOGRAPH.findall(text))


_IDEOGRAPH: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_POLITE: Final = r"\W*(?:(?:please|bitte|por favor|s'il te plaît|пожалуйста|can you|could you|and|so|请|請)\W+)*"


_WORDS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = tomllib.loads(
    resources.files(__package__).joinpath("routing.toml").read_text("utf-8")
)


def _anywhere(kind: str) -> re.Pattern[str]:
    words = _WORDS[kind]
    return re.compile(rf"\b(?:{'|'.join(words['spaced'])})(?!\w)|{'|'.join(words['unspaced'])}")


def _opening(kind: str, *, before_unspaced: str = ".*") -> re.Pattern[str]:
    """At the beginning, after what politeness puts there; a script without spaces may put it anywhere."""
    words = _WORDS[kind]
    spaced, unspaced = "|".join(words["spaced"]), "|".join(words["unspaced"])
    return re.compile(rf"{_POLITE}(?:{spaced})(?!\w)|{before_unspaced}(?:{unspaced})")


_BIG: Final = _anywhere("big")
_BEYOND: Final = _anywhere("beyond_a_look_up")
_DESTRUCTIVE: Final = _anywhere("destructive")
_ASKING: Final = _opening("asking")
_ONE_STEP: Final = _opening("one_step")
_GREETING: Final = _opening("greeting", before_unspaced=r"\W*")
