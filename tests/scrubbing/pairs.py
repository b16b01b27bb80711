"""A secret in two messages: announced in the first and said in the second."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.scrubbing.carriers import NOUNS
from tests.scrubbing.named import NAMED
from tests.scrubbing.samples import Planted, language
from tests.scrubbing.slots import fill

_ANNOUNCEMENTS: Final = {
    "en": ("my {noun} is", "the {noun}:", "here is the {noun}:"),
    "ru": ("мой {noun}:", "{noun} такой:", "вот {noun}:"),
    "zh": ("我的{noun}是", "{noun}：", "这是{noun}："),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two messages of one author and the secret across them."""

    first: str
    second: str
    planted: Planted


def announced_pairs(seed: int, count: int) -> Iterator[Pair]:
    """`count` pairs of which the first says what the second is."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.choice(list(NAMED))
        tongue = language(rng)
        announcement = rng.choice(_ANNOUNCEMENTS.get(tongue, ("{noun}:",)))
        secret = fill(rng.choice(NAMED[kind].shapes), rng)
        noun = rng.choice(NOUNS[NAMED[kind].noun][tongue])
        yield Pair(announcement.replace("{noun}", noun), secret, Planted(kind, secret))
