"""The memory of people beyond one conversation: facts, passages, and embeddings to find them by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import mul
from typing import Final

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import Role

_NOTHING: Final = literal_text("")


class Origin(StrEnum):
    """The source of a fact."""

    TOLD = "told"
    """Somebody asked for it."""
    GATHERED = "gathered"
    """A model took it out of a conversation: the first to go when there is no room."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One durable fact. `id` is unique per store, `number` counts those of an owner (`key`) from 1.

    `place` is where it was learned, "" in a direct message. A fact is read in its place, in threads inside of
    that place, and in direct messages with its owner; everywhere only if the owner said so (`is_shared`). `helps_with`
    are words that later questions may have in which it matters: it is found by them, too. `former` is what it replaced,
    a line each."""

    id: int
    key: SessionKey
    number: int
    text: CleanText
    created_at_ms: int
    place: str = ""
    origin: Origin = Origin.TOLD
    is_shared: bool = False
    helps_with: CleanText = _NOTHING
    former: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A fact as it is kept now, those that it replaced, and the one that had to make room for it."""

    fact: Fact
    replaced: tuple[Fact, ...] = ()
    dropped: Fact | None = None


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of what was said in an earlier session of the same key."""

    session_id: str
    seq: int
    role: Role
    text: CleanText
    said_at_ms: int


@dataclass(frozen=True, slots=True)
class Recollection:
    """The memories for a model when something was said: the facts of a person that it is always to know (`known`), and
    the facts and earlier words that have to do with what was said. The best of each come first."""

    facts: tuple[Fact, ...] = ()
    snippets: tuple[Snippet, ...] = ()
    known: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    """A part of a session that has left the model's view for good, or for now: by a compaction, or because
    another session was begun. It holds the entries after `after_seq` up to `seq`."""

    session_id: str
    key: SessionKey
    after_seq: int
    seq: int


# Embeddings as plain numbers: what a text means, as a direction. Pure.


Vector = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the model that made it: vectors of two models have nothing to say to each other."""

    model: str
    vector: Vector


def unit(vector: Sequence[float]) -> Vector:
    """Scale a vector to length 1; a vector without a direction stays as it is."""
    length = math.hypot(*vector)
    return tuple(part / length for part in vector) if length else tuple(vector)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Compute the cosine, from -1 to 1; 0 if the vectors cannot be compared: other sizes, or no direction."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths and len(one) == len(other) else 0.0
