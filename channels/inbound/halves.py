"""What each author said last in each place, raw, while it may be the first half of a secret. Pure.

In memory only, bounded in number, length and time; a process that started later remembers nothing. What a secret
was put together from is forgotten at once, unless it may still go on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from channels.normalized import Incoming
from gateway.contracts.messages import CleanText, InboundMessage, Mend, mark_of
from gateway.scrub.placeholder import PLACEHOLDER

HALF_TTL_S: Final = 60.0  # who pastes a key in two parts does it within seconds
HALVES_MAX: Final = 1_000  # people who speak to one account within a minute
HALF_CHARS_MAX: Final = 2_048  # longer is no token; it is enough of what announces a value, too
BLOCK_CHARS_MAX: Final = 20_000  # a private key in lines, from its first one on
PARTS_MAX: Final = 4  # messages of one chain: in more pieces nobody pastes a key

_BLOCK_BEGINS: Final = "-----BEGIN"
_BLOCK_ENDS: Final = "-----END"

Author: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One message: as it stands on its lane, the end of it as it was said, and how many characters at the end of
    the clean text are still as they were said. `goes_on`: a secret that begins before it may reach through it."""

    message: InboundMessage
    raw: str = field(repr=False)
    bare: int
    goes_on: bool

    def torn(self, chars: int, placeholder: CleanText) -> tuple[Part, Mend | None]:
        """This part once its last `chars` characters, not counting spaces, have given way to `placeholder`. None:
        there is nothing left to hide in it."""
        chars = min(chars + len(self.raw) - len(self.raw.rstrip()), self.bare)
        if chars <= 0:
            return self, None
        text, id_ = self.message.text, self.message.id
        mend = Mend(id_, chars, mark_of(text[-chars:], id_), placeholder)
        return replace(self, message=replace(self.message, text=mend.mended(text)), bare=0), mend


def author_of(incoming: Incoming) -> Author:
    """Who speaks, and where."""
    return (incoming.channel, incoming.account, incoming.user_id, *incoming.place)


def part_of(message: InboundMessage, said: str, *, goes_on: bool = False) -> Part:
    """What is to be remembered of a message whose raw text was `said`."""
    block = said.rfind(_BLOCK_BEGINS)
    is_open = block >= 0 and said.find(_BLOCK_ENDS, block) < 0
    raw = said[block:][-BLOCK_CHARS_MAX:] if is_open else said[-HALF_CHARS_MAX:]
    return Part(message, raw, bare_end(message.text, raw), goes_on)


def linked(parts: Sequence[Part]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The newest of these, which a secret in the next message may begin in, and the others before them."""
    begin = len(parts) - 1
    while begin > 0 and parts[begin].goes_on:
        begin -= 1
    return tuple(parts[max(begin, 0) :]), tuple(parts[: max(begin, 0)])


def torn(parts: Sequence[Part], reach: int, placeholder: CleanText) -> tuple[tuple[Part, ...], tuple[Mend, ...]]:
    """The parts once the last `reach` characters of them all belong to a secret, and what that changes."""
    after: list[Part] = []
    mends: list[Mend] = []
    for part in reversed(parts):
        taken = min(reach, len(part.raw.strip()))
        reach -= taken
        changed, mend = part.torn(taken, placeholder) if taken else (part, None)
        after.append(changed)
        if mend is not None:
            mends.append(mend)
    return tuple(reversed(after)), tuple(reversed(mends))


def bare_end(text: CleanText, raw: str) -> int:
    """How many characters at the end of `text` are as in `raw`, and no placeholder."""
    last = max((found.end() for found in PLACEHOLDER.finditer(text)), default=0)
    most = min(len(text) - last, len(raw))
    same = 0
    while same < most and text[-1 - same] == raw[-1 - same]:
        same += 1
    return same


@dataclass(frozen=True, slots=True)
class _Remembered:
    parts: tuple[Part, ...]
    until_ms: int


class Halves:
    """The memory of one channel."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[Author, _Remembered] = OrderedDict()

    def before(self, author: Author, now_ms: int) -> tuple[Part, ...]:
        """What this author said before, oldest first."""
        self._forget_old(now_ms)
        known = self._remembered.get(author)
        return known.parts if known is not None else ()

    def keep(self, author: Author, parts: Sequence[Part], now_ms: int) -> None:
        """From now on these came before."""
        self._remembered[author] = _Remembered(tuple(parts), now_ms + int(HALF_TTL_S * 1000))
        self._remembered.move_to_end(author)
        while len(self._remembered) > HALVES_MAX:
            self._remembered.popitem(last=False)

    def _forget_old(self, now_ms: int) -> None:
        while self._remembered:
            author, oldest = next(iter(self._remembered.items()))
            if oldest.until_ms > now_ms:
                break
            del self._remembered[author]
