"""What a provider is told to answer, in words that belong to no vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `pieces` are its arguments as they are streamed, where the vendor streams them."""

    name: str
    pieces: Sequence[str] = ("{}",)
    id: str = "call_1"

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that the provider counts: `cached` and `written` are part of `prompt`, `reasoning` of `completion`."""

    prompt: int = 120
    completion: int = 40
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class FaultKind(StrEnum):
    """What can go wrong at a provider; each wire has its own words for it."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    BROKEN = "broken"
    TOO_LONG = "too_long"
    KEY = "key"
    QUOTA = "quota"
    INVALID = "invalid"
    UNKNOWN_MODEL = "unknown_model"


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that fails, or, in the middle of an answer, its end. `message` replaces the vendor's own words."""

    kind: FaultKind
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer.

    `thinking` is shown, and signed with `signature`; `hidden` is thought that the vendor keeps to itself, where it does
    that. `finish` is the vendor's own word, "" for the one that fits the answer, None for no reason at all. `refusal`
    are the words of a refusal where the vendor streams them apart. `is_chatty` adds what a client has to skip:
    comments, pings, events without content. After `stalls_after` events nothing comes any more; `is_cut` ends the
    connection before the end of the answer, or right after the `finish` that is given; `fault` ends the answer with an
    error. `bytes_at_once` cuts the stream into pieces that heed no boundary; 0 sends each event in one piece.
    """

    deltas: Sequence[str] = ()
    calls: Sequence[Call] = ()
    thinking: Sequence[str] = ()
    hidden: str = ""
    signature: str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"
    refusal: str = ""
    finish: str | None = ""
    usage: Usage | None = Usage()  # frozen
    is_chatty: bool = False
    is_cut: bool = False
    fault: Fault | None = None
    stalls_after: int | None = None
    bytes_at_once: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fault as HTTP: the body is the vendor's."""

    status: int
    body: Body


@dataclass(frozen=True, slots=True)
class Wire:
    """How one vendor speaks. `events` yields the whole stream piece by piece; `finishes` are the reasons that the
    vendor documents, `faults` the kinds that it has words for."""

    path: str
    events: Callable[[Answer, str], Iterator[bytes]]
    refusal: Callable[[Fault], Refusal]
    finishes: Sequence[str]
    faults: Sequence[FaultKind] = tuple(FaultKind)
