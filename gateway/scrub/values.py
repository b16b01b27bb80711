"""The value itself: how far it goes, bare or in quotes."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from gateway.scrub.units import unit_end

VALUE_CHARS_MAX: Final = 512
QUOTED_CHARS_MAX: Final = 160

KEPT_ELSEWHERE: Final = ("arn:", "op://", "vault:")
"""A value that begins so says where a secret is kept; it may itself speak of secrets."""

_BARE: Final = r"(?:[^\"'`<>\\%]|\\(?![nrtu\"'\\])|%(?!0[aAdD9]|20|%)|[<>](?![/a-zA-Z]))"
_BARE_VALUE: Final = re.compile(f"{_BARE}{{1,{VALUE_CHARS_MAX}}}")
_BARE_REST: Final = re.compile(f"{_BARE}+")
_TRAILING: Final = re.compile(r"[.,;:)\]}>*|?~]+\Z|(?<=[A-Za-z0-9])_{1,2}\Z")
_NEXT_PAIR: Final = re.compile(r"[;,&](?=[A-Za-z_][\w. -]{0,30}[=:])|\\u0026|&amp;", re.ASCII)
_NEXT_THING: Final = re.compile(r"[;,|&]|\\u0026")
_LINE_ENDS: Final = ("", "\n", "\r", "`", "<", "\\", "。", "，")


def bare_end(text: str, at: int, end: int) -> int:
    """The end of the value without quotes that begins at `at`, with whatever is glued to it; `at` if there is none."""
    value = _BARE_VALUE.match(text, at, unit_end(text, at, min(end, at + VALUE_CHARS_MAX)))
    return value.end() if value else at


def overlong_end(text: str, stop: int, end: int) -> int:
    """The end of a value that did not fit in `VALUE_CHARS_MAX`."""
    rest = _BARE_REST.match(text, stop, unit_end(text, stop, end))
    return rest.end() if rest else stop


def ends_its_line(text: str, stop: int) -> bool:
    """Does nothing but markup follow on the line?"""
    return text[stop : stop + 1] in _LINE_ENDS


def without_followers(text: str, at: int, stop: int, *, is_personal: bool, is_assigned: bool) -> int:
    """The end of the value without what only follows it: a full stop, a bracket, the next pair."""
    following = _NEXT_PAIR if is_personal else _NEXT_THING
    if (is_assigned or not is_personal) and (cut := following.search(text, at + 1, stop)):
        stop = cut.start()
    while trailing := _TRAILING.search(text, at, stop):
        if text[trailing.start()] == ")" and "(" in text[at : trailing.start()]:
            break
        stop = trailing.start()
    if not is_personal and stop > at and text[stop - 1] == "!":
        stop -= 1
    return stop


@cache
def closing_of(quote: str) -> re.Pattern[str]:
    """The quote that ends what `quote` began: one with as many backslashes, full pairs of them not counted."""
    backslashes = len(quote) - len(quote.lstrip("\\"))
    return re.compile(rf"(?<!\\)(?:\\{{{2 * (backslashes + 1)}}})*{re.escape(quote)}")
