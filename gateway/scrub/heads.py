"""How a token begins: what may still become one when more of the text arrives."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from gateway.scrub.rules import Span, rule_book

_AT_PLACE: Final = re.compile(r"(?<![A-Za-z0-9])")
_SPOKEN: Final = re.compile(r"[a-z]*[aeiouy][a-z]*|[A-Z]?[a-z]")
"""A word, not the beginning of an anchor such as `ghp_`."""

_PARTIAL_ANCHOR_CHARS_MIN: Final = 3
_FIRST_CHARS: Final = 2
"""No anchor is shorter, and most pieces begin otherwise."""


def open_head(run: str) -> int | None:
    """Where in `run`, which ends where the text does, a token begins that may go on. None: nowhere."""
    rules = rule_book()
    at = 0
    for start, literal in rules.sites(run):
        if start < at:
            continue
        for rule in rules.beginning_with(run, start, literal):
            if rule.left or not (rule.is_glued or _AT_PLACE.match(run, start)):
                continue
            span = rule.match(run, start, 0)
            if span is None or (span.end == len(run) and not rule.is_complete(run[start:])):
                return start
            at = max(at, span.end)
            break
    return cut_anchor(run)


def token_at(run: str, at: int) -> Span | None:
    """The token whose anchor stands at `at`, by itself."""
    if run[at : at + _FIRST_CHARS].lower() not in _first_chars():
        return None
    rules = rule_book()
    for site, literal in rules.sites(run[at : at + _anchor_chars_max()]):
        if site:
            break
        found = (rule.match(run, at, 0) for rule in rules.beginning_with(run, at, literal))
        return next(filter(None, found), None)
    return None


def is_beginning(piece: str) -> bool:
    """Is this an anchor, or a part of one from its first character on?"""
    return piece in _beginnings() or piece in rule_book().by_anchor


def cut_anchor(run: str) -> int | None:
    """Where an anchor begins that the end of the run cuts in two."""
    if run[-_PARTIAL_ANCHOR_CHARS_MIN:] not in _endings():
        return None
    for start in range(max(0, len(run) - _anchor_chars_max()), len(run) - _PARTIAL_ANCHOR_CHARS_MIN + 1):
        piece = run[start:]
        if piece in _beginnings() and _AT_PLACE.match(run, start) and not _SPOKEN.fullmatch(piece):
            return start
    return None


@cache
def _beginnings() -> frozenset[str]:
    """The proper beginnings of all literal anchors."""
    return frozenset(anchor[:chars] for anchor in rule_book().by_anchor for chars in range(1, len(anchor)))


@cache
def _endings() -> frozenset[str]:
    """What the beginnings end in: most runs end otherwise."""
    return frozenset(beginning[-_PARTIAL_ANCHOR_CHARS_MIN:] for beginning in _beginnings())


@cache
def _first_chars() -> frozenset[str]:
    """What the anchors begin with, in lower case."""
    return frozenset(anchor[:_FIRST_CHARS].lower() for anchor in rule_book().by_anchor)


@cache
def _anchor_chars_max() -> int:
    return max(map(len, rule_book().by_anchor))
