"""A secret in two messages: cut anywhere, or announced in the first and said in the second."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.scrubbing.carriers import NOUNS
from tests.scrubbing.named import NAMED
from tests.scrubbing.samples import Planted, language
from tests.scrubbing.slots import fill
from tests.scrubbing.tokens import TOKENS

_LEADS: Final = ("", "here it is: ", "вот ключ ", "密钥是", "my key:\n", "use `")
_ENDS: Final = ("", " ok?", "\nthanks", ", проверь", "。谢谢", "` please")
_ANNOUNCEMENTS: Final = {
    "en": ("my {noun} is", "the {noun}:", "here is the {noun}:"),
    "ru": ("мой {noun}:", "{noun} такой:", "вот {noun}:"),
    "zh": ("我的{noun}是", "{noun}：", "这是{noun}："),
}
_HEAD_CHARS_MIN: Final = 8
_TAIL_CHARS_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """Two messages of one author and the secret across them."""

    first: str
    second: str
    planted: Planted


def pairs(seed: int, count: int) -> Iterator[Pair]:
    """`count` pairs, the kinds in a new order for each seed.

    The first half holds at least the vendor's prefix: a shorter one tells nobody anything.
    """
    rng = random.Random(seed)
    kinds = list(TOKENS)
    rng.shuffle(kinds)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        secret = fill(TOKENS[kind], rng)
        cut = rng.randint(_HEAD_CHARS_MIN, len(secret) - _TAIL_CHARS_MIN)
        yield Pair(rng.choice(_LEADS) + secret[:cut], secret[cut:] + rng.choice(_ENDS), Planted(kind, secret))


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
