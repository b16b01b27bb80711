"""Does a text end in the first half of a token?

People paste a key in two messages, and platforms cut long ones in two. The second half alone has no looks to
be told by; so whoever receives the first asks here what to remember until the second arrives.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from gateway.scrub.rules import RuleBook, rule_book
from gateway.scrub.view import View

TAIL_CHARS_MAX: Final = 64
"""No longer piece is kept of a token that cannot be recognised yet."""

LONG_TAIL_CHARS_MAX: Final = 2048
"""A token that can be recognised already, but is of a kind that goes on for long, is kept up to here."""

_PARTIAL_ANCHOR_CHARS_MIN: Final = 3
_TAIL: Final = re.compile(r"(?<![A-Za-z0-9_+/=.:~%-])[A-Za-z0-9_+/=.:~%-]{1,2048}\Z")
_AT_PLACE: Final = re.compile(r"(?<![A-Za-z0-9])")
_SPOKEN: Final = re.compile(r"[a-z]*[aeiouy][a-z]*|[A-Z]?[a-z]")
"""A word, not the beginning of an anchor such as `ghp_`."""


def open_tail(text: str) -> str:
    """The raw end of `text` that looks like the beginning of a known token, empty if there is none.

    Always a suffix of `text`. A piece that is no token by itself has at most `TAIL_CHARS_MAX` characters; one
    that is a token already and may go on (a JWT, a project key) at most `LONG_TAIL_CHARS_MAX`.
    """
    view = View()
    view.append(text[-LONG_TAIL_CHARS_MAX:], is_last=True)
    run = _TAIL.search(view.text)
    if run is None or view.text[-1] in ".:":
        return ""
    head = open_head(run.group())
    if head is None:
        return ""
    tail = view.raw(view.raw_start(run.start() + head), view.raw_length)
    is_recognisable = _recognised(run.group(), head)
    return tail if is_recognisable or len(tail) <= TAIL_CHARS_MAX else ""


def open_head(run: str) -> int | None:
    """Where in `run`, which ends where the text does, a token begins that may go on. None: nowhere."""
    rules = rule_book()
    at = 0
    while anchor := rules.anchor.search(run, at):
        start = anchor.start()
        at = start + 1
        for rule in rules.beginning_with(run, start, anchor.group()):
            if rule.left or not (rule.is_glued or _AT_PLACE.match(run, start)):
                continue
            span = rule.match(run, start, 0)
            if span is None or (span.end == len(run) and not rule.is_complete(run[start:])):
                return start
            at = max(at, span.end)
            break
    return _partial_anchor(rules, run)


def _recognised(run: str, head: int) -> bool:
    rules = rule_book()
    anchor = rules.anchor.match(run, head)
    return anchor is not None and any(
        rule.match(run, head, 0) is not None for rule in rules.beginning_with(run, head, anchor.group())
    )


def _partial_anchor(rules: RuleBook, run: str) -> int | None:
    """Where an anchor begins that the end of the run cuts in two."""
    for start in range(max(0, len(run) - _beginnings_chars_max()), len(run) - _PARTIAL_ANCHOR_CHARS_MIN + 1):
        piece = run[start:]
        if piece in _beginnings() and _AT_PLACE.match(run, start) and not _SPOKEN.fullmatch(piece):
            return start
    return None


@cache
def _beginnings() -> frozenset[str]:
    """The proper beginnings of all literal anchors."""
    return frozenset(anchor[:chars] for anchor in rule_book().by_anchor for chars in range(1, len(anchor)))


@cache
def _beginnings_chars_max() -> int:
    return max(map(len, _beginnings()))
