"""A secret in two messages: cut anywhere, the halves sent one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.scrubbing.samples import Planted
from tests.scrubbing.slots import fill
from tests.scrubbing.tokens import TOKENS

_LEADS: Final = ("", "here it is: ", "вот ключ ", "密钥是", "my key:\n", "use `")
_ENDS: Final = ("", " ok?", "\nthanks", ", проверь", "。谢谢", "` please")
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
