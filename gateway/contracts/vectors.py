"""Embeddings as plain numbers: what a text means, as a direction. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

Vector = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector and the model that made it: vectors of two models have nothing to say to each other."""

    model: str
    vector: Vector


def unit(vector: Sequence[float]) -> Vector:
    """The same direction with length 1; a vector without a direction stays as it is."""
    length = math.hypot(*vector)
    return tuple(part / length for part in vector) if length else tuple(vector)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """From -1 to 1; 0 where there is nothing to compare: other sizes, or no direction."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths and len(one) == len(other) else 0.0
