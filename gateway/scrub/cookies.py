"""`Cookie: a=…; b=…`: every value up to the end of the line, the attributes excepted."""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.checks import is_placeholder
from gateway.scrub.rules import Span
from gateway.scrub.states import Step
from gateway.scrub.units import unit_end

_PAIR: Final = re.compile(r"(?P<name>[A-Za-z0-9_.$-]{1,64})=(?P<value>[!#-&(-:<-\[\]-~]{1,4096})", re.ASCII)
_BETWEEN: Final = re.compile(r"[ \t;:\"'=]+|(?:HttpOnly|Secure|Partitioned)(?=;|\Z)", re.IGNORECASE)
_ATTRIBUTES: Final = frozenset(
    [
        "path",
        "domain",
        "expires",
        "max-age",
        "samesite",
        "priority",
        "lang",
        "locale",
        "theme",
        "version",
        "tz",
        "timezone",
        "currency",
    ]
)
_VALUE_CHARS_MIN: Final = 8
_BETWEEN_CHARS_MAX: Final = 32


class CookieLine:
    """State: the name of a cookie header was read."""

    __slots__ = ("_value",)

    RULE: Final = "named/session"

    def __init__(self) -> None:
        self._value = (0, 0)

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        start, end = self._value
        self._value = start - by, end - by

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`. Of a value that begins with a token that goes first, and then the rest."""
        begun_at, value_end = self._value
        if begun_at < at < value_end:
            return Step(value_end, cut=Span(at, value_end, self.RULE))
        while at < end:
            if between := _BETWEEN.match(text, at, unit_end(text, at, min(end, at + _BETWEEN_CHARS_MAX))):
                at = between.end()
                continue
            pair = _PAIR.match(text, at, end)
            if pair is None:
                return Step(at, is_over=True)
            at = pair.end()
            value = pair["value"]
            is_secret = len(value) >= _VALUE_CHARS_MIN and not is_placeholder(value)
            if is_secret and pair["name"].lower() not in _ATTRIBUTES:
                self._value = pair.span("value")
                return Step(at, cut=Span(*self._value, self.RULE))
        return Step(at)
