"""The process's own secrets, found wherever they appear and in whatever form they were wrapped.

This is the one tier that misses nothing: a value is searched as it is, in base64 (at each of the three
positions it can have inside a longer text), percent-encoded, JSON-escaped, HTML-escaped and in hex.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.scrub.finding import trie_pattern
from gateway.scrub.rules import Span
from gateway.scrub.units import closed_until
from gateway.scrub.view import normalised

RULE: Final = "known"
VALUE_CHARS_MIN: Final = 6
"""A shorter value is a word, not a secret: hiding it would shred every text."""

_ENCODED_CHARS_MIN: Final = 8
"""What is left of a short value in the middle of base64 must still be unmistakable."""


class KnownValues:
    """Exact search for a fixed set of secrets. Empty is cheap."""

    __slots__ = ("_pattern", "_reaching")

    def __init__(self, values: Iterable[str] = ()) -> None:
        every = {form for value in values for line in _lines(value) for form in forms(line)}
        self._pattern = re.compile(trie_pattern(sorted(every))) if every else None
        self._reaching = tuple(sorted(form for form in every if _crosses_units(form)))

    def spans(self, text: str, start: int, end: int) -> Iterator[Span]:
        """Every occurrence in `text[start:end]`, from left to right, none overlapping another."""
        if self._pattern is not None:
            for found in self._pattern.finditer(text, start, end):
                yield Span(found.start(), found.end(), RULE)

    def reaches_over(self, text: str, start: int, border: int) -> int:
        """Where in `text[start:border]` a value begins, or may begin, that ends behind `border`; else `border`.

        Only a value with spaces in it can do that.
        """
        earliest = border
        for form in self._reaching:
            for at in range(max(start, border - len(form) + 1), earliest):
                if form.startswith(text[at : at + len(form)]):
                    earliest = at
                    break
        return earliest


def forms(value: str) -> set[str]:
    """The value and its usual wrappings, each long enough to be unmistakable."""
    data = value.encode(errors="surrogatepass")
    plain = {
        value,
        normalised(value),
        json.dumps(value)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        html.escape(value),
        quote_plus(data),
        data.hex(),
        data.hex().upper(),
    }
    for safe in ("", "/", "!*'()~:@", "-_.!~*'()"):
        encoded = quote(data, safe=safe)
        plain |= {encoded, re.sub(r"%[0-9A-F]{2}", lambda sign: sign[0].lower(), encoded)}
    plain.add("".join(f"%{byte:02X}" for byte in data))
    return {form for form in plain if len(form) >= VALUE_CHARS_MIN} | set(_in_base64(data))


def _in_base64(data: bytes) -> Iterator[str]:
    for lead in range(3):
        whole = base64.b64encode(bytes(lead) + data).decode()
        # The first characters mix in what stands before the value, the last ones what follows it.
        head = (0, 2, 3)[lead]
        tail = len(whole.rstrip("=")) - (1 if (lead + len(data)) % 3 else 0)
        core = whole[head:tail]
        if len(core) >= _ENCODED_CHARS_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")


def _lines(value: str) -> Iterator[str]:
    """A value of several lines (a key file) is searched line by line."""
    for line in value.splitlines():
        if len(line.strip()) >= VALUE_CHARS_MIN and not line.startswith("-----"):
            yield line.strip()


def _crosses_units(form: str) -> bool:
    """Could a part of the text be closed while this form is still arriving?"""
    return closed_until(form, 0, len(form)) > 0
