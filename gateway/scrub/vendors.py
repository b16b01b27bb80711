"""Behind a vendor's name: a value that only its neighbour gives away.

    assemblyai = fa0e…      CLARIFAI_PAT: "…"      new Client("deepgram", "…")

Many vendors hand out plain random letters and digits. Near their name, behind a sign, on the same line, such a
value is a secret unless the line speaks of an id, a hash or a version.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from gateway.scrub.checks import made
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import Span
from gateway.scrub.states import Step
from gateway.scrub.units import unit_end
from gateway.scrub.words import announces_more

_RULE: Final = "named"
_REACH_CHARS: Final = 48
"""How far behind the name a value may begin."""

_UNIT_CHARS_MAX: Final = 512
_VALUE_CHARS_MIN: Final = 20
_UNMISTAKABLE_CHARS: Final = 32
"""So many random characters need no sign before them."""

_DIGITS_MIN: Final = 3
_HOST: Final = re.compile(r"[\w-]{0,20}\.(?:com|io|net|org|dev|ai|app|cloud|co|ru|cn|me|eu|us)\b|[\w./-]{0,40}@")
_FIELD: Final = re.compile(r"[^\s=:\"'`(){}\[\],;<>|]+")
_VALUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+/.~:-]*={0,2}", re.ASCII)
_ASSIGNS: Final = re.compile(r"[=:\"'`(,>]")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", re.ASCII)


class NearVendor:
    """State: the name of a vendor was read; its secret may follow on this line."""

    __slots__ = ("_begun_at", "_is_assigned", "_is_fresh")

    def __init__(self, begun_at: int) -> None:
        self._begun_at = begun_at
        self._is_assigned = False
        self._is_fresh = True

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._begun_at -= by

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`."""
        while at < end:
            if text[at] == "\n" or at - self._begun_at > _REACH_CHARS:
                return Step(at, is_over=True)
            if text[at].isspace():
                at += 1
                continue
            unit = unit_end(text, at, min(end, at + _UNIT_CHARS_MAX))
            if self._is_fresh and _HOST.match(text, at, unit):
                return Step(at, is_over=True)
            self._is_fresh = False
            step = self._read(text, at, unit)
            if step is not None:
                return step
            at = unit
        return Step(at)

    def _read(self, text: str, at: int, unit: int) -> Step | None:
        """Look for the value in one unit. None: it goes on behind it."""
        begun = at
        for field in _FIELD.finditer(text, at, unit):
            self._is_assigned = self._is_assigned or _ASSIGNS.search(text, begun, field.start()) is not None
            begun = field.end()
            if field.start() - self._begun_at > _REACH_CHARS or PLACEHOLDER.match(text, field.start() - 1):
                return Step(field.start(), is_over=True)
            value = _VALUE.match(text, field.start(), unit)
            if value and self._is_random(value.group()):
                return Step(value.end(), is_over=True, cut=Span(value.start(), value.end(), _RULE))
            if announces_more(field.group()) or _speaks_of_facts(field.group()):
                return Step(field.start(), is_over=True)
        self._is_assigned = self._is_assigned or _ASSIGNS.search(text, begun, unit) is not None
        return None

    def _is_random(self, value: str) -> bool:
        """Letters and digits through each other, and nothing that reads as words."""
        least = _VALUE_CHARS_MIN if self._is_assigned else _UNMISTAKABLE_CHARS
        return len(value) >= least and sum(map(str.isdigit, value)) >= _DIGITS_MIN and made(value)


def _speaks_of_facts(field: str) -> bool:
    return any(word.group().lower() in _facts() for word in _WORD.finditer(field))


@cache
def _facts() -> frozenset[str]:
    """The words beside which a value is no secret."""
    tables = tomllib.loads(Path(__file__).with_name("vendors.toml").read_text(encoding="utf-8"))
    return frozenset(tables["facts"].split())
