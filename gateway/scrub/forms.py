"""The forms a known secret may arrive in: as it is, escaped in part or in whole, in hex, in base64.

A form is a sequence of symbols, one for each of its characters, each a small pattern: what the view has not
decoded already (view.py) may be spelled in several ways. Between any two symbols a line may break.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from gateway.scrub.units import closed_until
from gateway.scrub.view import normalised

_ENCODED_CHARS_MIN: Final = 8
"""What is left of a short value in the middle of base64 must still be unmistakable."""

_ALWAYS_DECODED: Final = frozenset("-_.~")
_QUOTES: Final = frozenset("\"'`")
_SPACES: Final = r"(?: |\+|%(?:25){0,3}20|\\{1,4}(?:u00|x)20|&(?:amp;){0,3}(?:#0{0,4}32|#x0{0,4}20|nbsp);)"
_BREAK: Final = re.compile(r"(?:[=\\]{0,2}(?:\r\n?|\n)[ \t>|#*]{0,16})?")
_BREAK_CHARS_MAX: Final = 20
_BREAKS_MAX: Final = 8
_PLAIN_SYMBOL_CHARS_MAX: Final = 4
_SYMBOL_CHARS_MAX: Final = 24
_HEAD_CHARS: Final = 4
_PIECE: Final = re.compile(r"(?s:\\+|.)")
"""One character, or a row of backslashes: how many there were is lost when they are escaped."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of one secret."""

    plain: str
    symbols: tuple[re.Pattern[str], ...]
    """One for each character of `plain`."""

    @property
    def crosses_units(self) -> bool:
        """Could a part of the text be closed while this form is still arriving on one line?"""
        return closed_until(self.plain, 0, len(self.plain)) > 0

    @property
    def reach_chars(self) -> int:
        """No part of it is longer."""
        spelled = sum(1 for symbol in self.symbols if len(symbol.pattern) > _PLAIN_SYMBOL_CHARS_MAX)
        return len(self.plain) + spelled * _SYMBOL_CHARS_MAX + _BREAKS_MAX * _BREAK_CHARS_MAX

    def head(self) -> tuple[str, ...]:
        """The patterns of its beginning: enough to be worth a closer look."""
        first, *others = (symbol.pattern for symbol in self.symbols[:_HEAD_CHARS])
        return first, *(_BREAK.pattern + other for other in others)

    def end_in(self, text: str, at: int, end: int) -> int | None:
        """Where the form ends that begins at `at`; None if it does not stand there."""
        found = _compiled(_BREAK.pattern.join(symbol.pattern for symbol in self.symbols)).match(text, at, end)
        return found.end() if found else None

    def is_begun(self, text: str, at: int, end: int) -> bool:
        """Does `text[at:end]` read like this form so far, and is more of it to come?"""
        for symbol in self.symbols:
            found = symbol.match(text, at, end) or _behind_break(symbol, text, at, end)
            if found is None:
                gap = _BREAK.match(text, at, end)
                return (gap.end() if gap else at) == end
            at = found.end()
        return False


def _behind_break(symbol: re.Pattern[str], text: str, at: int, end: int) -> re.Match[str] | None:
    """The symbol behind a line break, whose last sign may be the symbol itself."""
    gap = _BREAK.match(text, at, end)
    if gap is None or gap.end() == at:
        return None
    return symbol.match(text, gap.end(), end) or symbol.match(text, gap.end() - 1, end)


def forms(value: str) -> Iterator[Form]:
    """Every form of one secret, each once."""
    octets = value.encode(errors="surrogatepass")
    for plain in dict.fromkeys((value, normalised(value))):
        yield Form(plain, tuple(map(_symbol, _PIECE.findall(plain))))
    yield Form(octets.hex(), tuple(_compiled(_either_case(digit)) for digit in octets.hex()))
    for core in dict.fromkeys(in_base64(octets)):
        yield Form(core, tuple(_compiled(re.escape(char)) for char in core))


def in_base64(octets: bytes) -> Iterator[str]:
    """The base64 of these octets at each of the three positions they can have inside more of them."""
    for lead in range(3):
        whole = base64.b64encode(bytes(lead) + octets).decode()
        # The first characters mix in what stands before the value, the last ones what follows it.
        head = (0, 2, 3)[lead]
        tail = len(whole.rstrip("=")) - (1 if (lead + len(octets)) % 3 else 0)
        core = whole[head:tail]
        if len(core) >= _ENCODED_CHARS_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")


@cache
def _symbol(char: str) -> re.Pattern[str]:
    """The pattern for one piece of a value, as it may stand in the view."""
    if char.isascii() and (char.isalnum() or char in _ALWAYS_DECODED):
        return _compiled(re.escape(char))
    if char == " ":
        return _compiled(_SPACES)
    if char.startswith("\\"):
        return _compiled(rf"(?:{'|'.join(_escaped(char[0]))}|\\{{1,{8 * len(char)}}})")
    ways = [*_escaped(char), re.escape(char)]
    if char in _QUOTES:
        ways.insert(0, r"\\{1,8}" + re.escape(char))
    return _compiled(f"(?:{'|'.join(ways)})")


def _escaped(char: str) -> Iterable[str]:
    """Spellings that the view leaves alone, because in general they are no part of a secret."""
    octets = char.encode(errors="surrogatepass")
    yield "".join("%(?:25){0,3}" + "".join(map(_either_case, f"{octet:02x}")) for octet in octets)
    code = ord(char)
    if code < 0x10000:
        yield r"\\{1,4}u" + "".join(map(_either_case, f"{code:04x}"))
    else:
        pair = char.encode("utf-16-be").hex()
        yield "".join(r"\\{1,4}u" + "".join(map(_either_case, pair[at : at + 4])) for at in (0, 4))
    if code < 0x100:
        yield r"\\{1,4}x" + "".join(map(_either_case, f"{code:02x}"))
    yield f"&(?:amp;){{0,3}}#(?:0{{0,4}}{code}|[xX]0{{0,4}}{code:x}|[xX]0{{0,4}}{code:X});?"


def _either_case(digit: str) -> str:
    return f"[{digit}{digit.upper()}]" if digit.isalpha() else digit


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
