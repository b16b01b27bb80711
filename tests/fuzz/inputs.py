"""A case for the fuzzer: how its bytes become a text with cuts, and how a case is kept in a file. Pure.

A case is made of templates and a seed, so that a kept one reads well and holds nothing that looks like a real key.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.fuzz.fragments import FRAGMENTS
from tests.scrubbing import ATTACKS, TOKENS, fill
from tests.scrubbing.attacks import Disguise

CUTS: Final = 6
PIECES_MAX: Final = 16
TIMES_MAX: Final = 300
"""Enough of most tokens for a run that is too long to be kept."""

_OFTEN: Final = 0xA7
_DISGUISES: Final[Mapping[str, Disguise]] = {attack.name: attack.disguise for attack in ATTACKS}
_KINDS: Final = tuple(TOKENS)
_RAW, _DISGUISED, _REPEATED = 0xFD, 0xFE, 0xFF
"""Bytes that say what the next ones are; all others choose a fragment together with their successor."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A template, how often it stands there, and the disguise it wears ("" for none)."""

    template: str
    times: int = 1
    disguise: str = ""

    def text(self, rng: random.Random) -> str:
        """The piece, drawn."""
        plain = fill(self.template, rng) * self.times
        return _DISGUISES[self.disguise](plain, rng) if self.disguise and len(plain) > 2 else plain


@dataclass(frozen=True, slots=True)
class Case:
    """Pieces around a planted token, and where to cut the text (as shares of its length, in 65,536ths)."""

    seed: int
    planted: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    cuts: tuple[int, ...]

    def token(self) -> str:
        """The planted token."""
        return fill(TOKENS[self.planted], random.Random(self.seed))

    def text(self) -> str:
        """The whole text; the planted token stands between spaces."""
        rng = random.Random(self.seed + 1)
        before, after = ("".join(piece.text(rng) for piece in pieces) for pieces in (self.before, self.after))
        return f"{before} {self.token()} {after}" if self.after else before

    def chunks(self, text: str) -> list[str]:
        """The text, cut."""
        places = sorted(cut * (len(text) + 1) >> 16 for cut in self.cuts)
        return [text[left:right] for left, right in itertools.pairwise([0, *places, len(text)])]

    def dump(self) -> str:
        """For a file: JSON, a piece a line."""
        head = f'"seed": {self.seed}, "planted": {json.dumps(self.planted)}, "cuts": {json.dumps(self.cuts)}'
        return f'{{{head},\n"before": {_listed(self.before)},\n"after": {_listed(self.after)}}}\n'


def load(kept: str) -> Case:
    """What `dump` wrote."""
    case = json.loads(kept)
    before, after = (tuple(Piece(*piece) for piece in case[name]) for name in ("before", "after"))
    return Case(case["seed"], case["planted"], before, after, tuple(case["cuts"]))


def _listed(pieces: tuple[Piece, ...]) -> str:
    lines = (json.dumps([piece.template, piece.times, piece.disguise]) for piece in pieces)
    return "[" + "".join(f"\n  {line}," for line in lines).removesuffix(",") + "]"


def composed(source: bytes) -> Case:
    """Any bytes make a case; similar bytes make similar ones."""
    head, body = source[: 3 + 2 * CUTS].ljust(3 + 2 * CUTS, b"\0"), source[3 + 2 * CUTS :]
    cuts = tuple(int.from_bytes(head[at : at + 2], "big") for at in range(3, len(head), 2))
    pieces = tuple(itertools.islice(_pieces(body), PIECES_MAX))
    turn = len(pieces) * head[2] // 255
    return Case(head[0], _KINDS[head[1] % len(_KINDS)], pieces[:turn], pieces[turn:], cuts)


def _pieces(body: bytes) -> Iterator[Piece]:
    stream = iter(body)
    for code in stream:
        more = next(stream, 0)
        if code == _RAW:
            yield Piece(bytes(itertools.islice(stream, more % 16)).decode("utf-8", "surrogateescape"))
        elif code == _DISGUISED:
            yield Piece(_fragment(next(stream, 0), next(stream, 0)), disguise=ATTACKS[more % len(ATTACKS)].name)
        elif code == _REPEATED:
            times = TIMES_MAX if more == _OFTEN else 2 + more % 8
            yield Piece(_fragment(next(stream, 0), next(stream, 0)), times=times)
        else:
            yield Piece(_fragment(code, more))


def _fragment(high: int, low: int) -> str:
    return FRAGMENTS[(high << 8 | low) % len(FRAGMENTS)]
