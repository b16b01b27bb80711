"""The rules of `rules.toml`, and the one pattern that finds where any of them may begin.

A rule is a few literal beginnings (its anchors) and a bounded pattern for what follows. Nothing is ever
searched with an unbounded pattern over a whole text: an anchor is found, the rule is matched there, and
what it matched is stepped over; so the work grows with the length of the text and with nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.scrub.checks import CHECKS, Check
from gateway.scrub.finding import trie_pattern

ALPHABETS: Final[Mapping[str, str]] = {
    "base62": "A-Za-z0-9",
    "base64": "A-Za-z0-9+/=",
    "base64url": "A-Za-z0-9_-",
    "hex": "0-9a-f",
    "anyhex": "0-9A-Fa-f",
    "base32": "A-Z2-7",
    "base36": "0-9a-z",
    "upper36": "0-9A-Z",
    "base58": "1-9A-HJ-NP-Za-km-z",
    "dotted": "A-Za-z0-9_.-",
    "digits": "0-9",
}
_COMPLETE_SHARE: Final = 0.75
"""A key that lost a quarter of its characters is still worth hiding."""

_LEFT_CHARS_MAX: Final = 96
"""The longest part of a token that may stand before its anchor (an Azure DevOps token: 76)."""

_BOUNDARY: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf0])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])"
    r"|(?<=\\u[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]))"
)
"""A token does not begin inside a word; an escaped newline or an encoded sign before it is no word."""

_REGEX_MARKS: Final = re.compile(r"[\[({]")


class Span(NamedTuple):
    """One secret: where it lies in the view, and the id of the rule that says so."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret that can be told by its own looks. See the head of `rules.toml` for the fields."""

    id: str
    anchors: tuple[str, ...]
    body: str
    more: str
    left: str
    checks: tuple[Check, ...]
    is_glued: bool
    nominal: int
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]

    def match(self, run: str, anchor_at: int, floor: int) -> Span | None:
        """The secret of this rule whose anchor stands at `anchor_at` of a run, not before `floor`."""
        found = _compiled(self.body).match(run, anchor_at)
        if found is None:
            return None
        start, stop = found.span("secret") if "secret" in found.re.groupindex else found.span()
        if self.left:
            before = _compiled(f"(?:{self.left})\\Z").search(run, max(floor, anchor_at - _LEFT_CHARS_MAX), anchor_at)
            if before is None:
                return None
            start = before.start()
        judged = run[start + self._anchor_chars(run, start) : stop]
        if start < floor or not all(check(judged) for check in self.checks):
            return None
        if self.more and (rest := _compiled(f"[{self.more}]+").match(run, stop)):
            stop = rest.end()
        return Span(start, stop, self.id)

    def is_complete(self, token: str) -> bool:
        """Is nothing missing at the end of this token, as far as its kind has a fixed length?"""
        anchor_chars = max((len(anchor) for anchor in self.anchors if token.startswith(anchor)), default=0)
        return 0 < self.nominal <= len(token) - anchor_chars

    def _anchor_chars(self, text: str, start: int) -> int:
        if not self.checks or self.checks[0] is not CHECKS["varied"]:
            return 0
        return max((len(anchor) for anchor in self.anchors if text.startswith(anchor, start)), default=0)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules, and where each may begin."""

    rules: tuple[Rule, ...]
    anchor: re.Pattern[str]
    """Any anchor of any rule."""
    mark: re.Pattern[str]
    """Those anchors that are patterns."""
    by_anchor: Mapping[str, tuple[Rule, ...]]
    """By literal anchor the rules that begin with it or with its own beginning, the most particular first."""
    by_pattern: tuple[tuple[re.Pattern[str], Rule], ...]

    def beginning_with(self, text: str, at: int, literal: str) -> Iterator[Rule]:
        """The rules that may begin at `at`, where `literal` is the longest anchor, the most particular first."""
        yield from self.by_anchor.get(literal, ())
        if self.mark.match(text, at):
            for pattern, rule in self.by_pattern:
                if pattern.match(text, at):
                    yield rule


@cache
def rule_book() -> RuleBook:
    """The rules as shipped. Read and compiled once, at the first text."""
    rows = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))["rule"]
    rules = tuple(_rule(row) for row in rows)
    literals: dict[str, list[Rule]] = {}
    patterns: list[tuple[re.Pattern[str], Rule]] = []
    for rule in rules:
        for anchor in rule.anchors:
            if _REGEX_MARKS.search(anchor):
                patterns.append((re.compile(anchor, re.ASCII), rule))
            else:
                literals.setdefault(anchor, []).append(rule)
    marks = "|".join(dict.fromkeys(pattern.pattern for pattern, _ in patterns)) or "(?!)"
    return RuleBook(
        rules=rules,
        anchor=re.compile(f"{trie_pattern(literals)}|{marks}", re.ASCII),
        mark=re.compile(marks, re.ASCII),
        by_anchor={
            anchor: tuple(rule for length in range(len(anchor), 0, -1) for rule in literals.get(anchor[:length], ()))
            for anchor in literals
        },
        by_pattern=tuple(patterns),
    )


def _rule(row: Mapping[str, Any]) -> Rule:
    anchors = tuple(row["anchors"])
    alphabet = ALPHABETS[row["alphabet"]] if "alphabet" in row else ""
    if "pattern" in row:
        body = _with_alphabets(row["pattern"])
    else:
        nominal = int(row["nominal"])
        heads = "|".join(anchor if _REGEX_MARKS.search(anchor) else re.escape(anchor) for anchor in anchors)
        body = f"(?:{heads})[{alphabet}]{{{int(nominal * _COMPLETE_SHARE)},{nominal + 8}}}"
    left = _with_alphabets(row.get("left", ""))
    may_touch_letters = bool(left) or bool(row.get("glued", False))
    return Rule(
        id=row["id"],
        anchors=anchors,
        body=body if may_touch_letters else _BOUNDARY + body,
        more=alphabet,
        left=left,
        checks=tuple(CHECKS[name] for name in row.get("checks", ("varied",))),
        is_glued=bool(row.get("glued", False)),
        nominal=int(row.get("nominal", 0)),
        examples=tuple(row["examples"]),
        counter_examples=tuple(row.get("counter_examples", ())),
    )


def _with_alphabets(pattern: str) -> str:
    return re.sub(r"\[:(\w+):\]", lambda name: _BOUNDARY if name[1] == "start" else ALPHABETS[name[1]], pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
