"""Ways in which a text arrives in pieces."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.scrub import Scrubber

_DELTA: Final = re.compile(r"\s*\S{1,5}|\s+")


def _single(text: str, _: random.Random) -> list[str]:
    return list(text)


def _random(text: str, rng: random.Random) -> list[str]:
    places = sorted(rng.choices(range(len(text) + 1), k=rng.randint(1, 12)))
    return [text[left:right] for left, right in itertools.pairwise([0, *places, len(text)])]


def _deltas(text: str, _: random.Random) -> list[str]:
    """As models speak: a few letters, the space before them included."""
    return _DELTA.findall(text)


def _eights(text: str, _: random.Random) -> list[str]:
    return [text[at : at + 8] for at in range(0, len(text), 8)]


SPLITS: Final[Mapping[str, Callable[[str, random.Random], list[str]]]] = {
    "single characters": _single,
    "anywhere": _random,
    "a model's deltas": _deltas,
    "eight characters": _eights,
}


def streamed(scrubber: Scrubber, pieces: Sequence[str]) -> list[str]:
    """What comes out for each piece, and at the end."""
    stream = scrubber.stream()
    return [*(stream.feed(piece) for piece in pieces), stream.flush()]
