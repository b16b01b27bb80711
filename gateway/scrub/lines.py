"""Secrets that their line tells, and lines that the one above tells: a row of `lines.toml` for each.

echo … | sudo -S apt update      smtp.login("ann", "…")      Recovery codes      kind: Secret
                                                             1. 8f2k1-…          data: …

An anchor is found (lookahead.py), the rule's pattern is matched from there to the end of the line, and then, if it
has one, the pattern for the rows below. A line is read when it is whole, so nothing depends on how the text arrived.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from gateway.scrub.judge import Bond, is_secret
from gateway.scrub.mnemonic import is_mnemonic
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import CHECKS, Check, SecretSpan
from gateway.scrub.states import State, StepResult
from gateway.scrub.words import KeywordFamily, family_of_name

_LINE_CHARS_MAX: Final = 400
"""A longer line is read up to here, unless its rule says otherwise."""

_LOOK_BACK_CHARS: Final = 96
"""What stands before an anchor; a stream keeps not much more."""

_ROWS_MAX: Final = 200
_OF_COLUMNS: Final = (KeywordFamily.PERSONAL, KeywordFamily.KEY)
_CELL: Final = re.compile(r"[(,]|\\?[\"'](?P<value>(?:[^\"'\\]|\\.|''){0,256}?)\\?[\"']|[^(,\"']+")


def chosen(value: str) -> bool:
    """Tell whether a person could have chosen it as a password."""
    return is_secret(value, KeywordFamily.PERSONAL, Bond.ASSIGNED, is_quoted=False)


def words_in_base64(value: str) -> bool:
    """Tell whether a value may be base64 and is no word: what a Kubernetes Secret holds, and a ConfigMap does not."""
    return len(value) % 4 == 0 and (value.endswith("=") or (not value.islower() and not value.isdigit()))


_CHECKS: Final[Mapping[str, Check]] = {
    **CHECKS,
    "mnemonic": is_mnemonic,
    "chosen": chosen,
    "words_in_base64": words_in_base64,
}


@dataclass(frozen=True, slots=True)
class LineRule:
    """One row of `lines.toml`; see its head for the fields."""

    id: str
    anchors: tuple[str, ...]
    before: re.Pattern[str] | None
    line: re.Pattern[str]
    each: re.Pattern[str] | None
    head: re.Pattern[str] | None
    row: re.Pattern[str] | None
    gap: int
    chars_max: int
    checks: tuple[Check, ...]
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]

    def secrets(self, found: re.Match[str]) -> list[SecretSpan]:
        """Return what is to be cut of a matched line: its first named group, or each part of that."""
        start, end = next((found.span(name) for name in found.re.groupindex if found.start(name) >= 0), (-1, -1))
        if start < 0:
            return []
        parts = [(start, end)]
        if self.each is not None and found.re is self.line:
            parts = [each.span(1) for each in self.each.finditer(found.string, start, end)]
        return [
            SecretSpan(*part, self.id)
            for part in parts
            if not PLACEHOLDER.search(found.string, *part)
            and all(check(found.string[part[0] : part[1]]) for check in self.checks)
        ]


@dataclass(slots=True)
class RuledLines(State):
    """State: an anchor of a rule was read, and its line is matched when it is whole; then, line by line, those below.

    A line that is none of the rule's is given back to the machine, which comes here again at `due_at`.
    """

    POSITIONS = ("due_at", "interrupted")

    _rule: LineRule
    due_at: int | None = None
    """Where the next line begins that may belong to the rule; None: nowhere."""
    interrupted: State | None = None
    """What was open at the end of the line above, and goes on if this line is none of the rule's."""
    _columns: Mapping[int, KeywordFamily] = field(default_factory=dict)
    _cuts: list[SecretSpan] = field(default_factory=list)
    """Secrets of the line that was read: all are cut before more of the text is."""
    _is_below: bool = False
    _is_under_head: bool = False
    _misses: int = 0
    _rows: int = 0

    def __post_init__(self) -> None:
        self._is_under_head = self._rule.head is None

    def waits(self, text: str, at: int, end: int, *, is_last: bool) -> bool:
        """Tell whether the line at `at` is not whole yet: until then there is nothing to look for."""
        return not self._cuts and _line_end(text, at, end, self._rule.chars_max, is_last=is_last) is None

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. `at` is the anchor at first, then the beginning of a line."""
        while self._cuts:
            cut = self._cuts.pop(0)
            if cut.start >= at:
                return StepResult(cut.end, cut=cut, is_over=not self._cuts)
        stop = _line_end(text, at, end, self._rule.chars_max, is_last=is_last)
        if stop is None:
            return StepResult(at, waits=True)
        self.due_at = None
        if self._matches(text, at, stop) and self._rule.row is not None and text[stop : stop + 1] == "\n":
            self.due_at = stop + 1
        if not self._cuts:
            return StepResult(at, is_over=True)
        self.interrupted = None
        cut = self._cuts.pop(0)
        return StepResult(cut.end, cut=cut, is_over=not self._cuts)

    def _matches(self, text: str, at: int, stop: int) -> bool:
        """Read one line; tell whether the next may belong to the rule."""
        rule = self._rule
        if not self._is_below:
            self._is_below = True
            found = rule.line.match(text, at, stop)
            if found and "columns" in rule.line.groupindex:
                self._columns = _secret_columns(found["columns"])
                self._cuts = self._secrets(found)
                return bool(self._columns)
            self._cuts = self._secrets(found)
            return found is not None
        assert rule.row is not None, "without one nothing is due below"
        self._rows += 1
        if text[at - 1] != "\n":
            return self._rows < _ROWS_MAX
        if rule.head is not None and rule.head.fullmatch(text, at, stop):
            self._is_under_head = True
            return True
        found = rule.row.fullmatch(text, at, stop) if self._is_under_head else None
        self._cuts = self._secrets(found)
        self._misses = 0 if self._cuts else self._misses + 1
        self._is_under_head = found is not None or rule.head is None
        return self._misses <= rule.gap and self._rows < _ROWS_MAX

    def _secrets(self, found: re.Match[str] | None) -> list[SecretSpan]:
        if found is None:
            return []
        if not self._columns:
            return self._rule.secrets(found) if "columns" not in found.re.groupindex else []
        return [
            SecretSpan(*span, self._rule.id)
            for column, span in _cells(found)
            if column in self._columns
            and is_secret(found.string[slice(*span)], self._columns[column], Bond.SAID, is_quoted=True)
        ]


def _secret_columns(names: str) -> Mapping[int, KeywordFamily]:
    """Return which of the columns hold secrets, by their numbers."""
    families = map(family_of_name, names.split(","))
    return {column: family for column, family in enumerate(families) if family in _OF_COLUMNS}


def _cells(found: re.Match[str]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the quoted values of the rows `(…, …), (…, …)`, each with the number of its column."""
    column = 0
    for cell in _CELL.finditer(found.string, *found.span("rows")) if found["rows"] else ():
        sign = cell.group()
        if sign in "(,":
            column = 0 if sign == "(" else column + 1
        elif cell["value"]:
            yield column, cell.span("value")


def rule_at(text: str, at: int, stop: int) -> LineRule | None:
    """Return the first rule whose anchor stands at `text[at:stop]`, behind what it wants to stand before it."""
    for rule in line_rules()[text[at:stop].lower()]:
        if rule.before is None or rule.before.search(text, max(0, at - _LOOK_BACK_CHARS), at):
            return rule
    return None


def open_anchor(text: str, start: int, border: int) -> int:
    """Return where in `text[start:border]` an anchor of several words begins that goes on behind `border`; else
    `border`."""
    beginnings, chars_max = _beginnings()
    tail = text[max(start, border - chars_max) : border].lower()
    if tail[-1:].isspace() and tail.endswith(beginnings):
        return border - max(len(each) for each in beginnings if tail.endswith(each))
    return border


@cache
def _beginnings() -> tuple[tuple[str, ...], int]:
    """Return what stands before a space in an anchor, the space included, and how long the longest is."""
    found = {anchor[: at + 1] for anchor in line_rules() for at, char in enumerate(anchor[:-1]) if char.isspace()}
    return tuple(found), max(map(len, found))


@cache
def line_rules() -> Mapping[str, Sequence[LineRule]]:
    """Return the rules as shipped by their anchors, which are in lower case. Read once, at the first text."""
    tables = tomllib.loads(Path(__file__).with_name("lines.toml").read_text(encoding="utf-8"))
    by_anchor: dict[str, list[LineRule]] = {}
    for rule_id, row in tables["line"].items():
        rule = _rule(rule_id, row)
        for anchor in rule.anchors:
            by_anchor.setdefault(anchor, []).append(rule)
    return by_anchor


def _rule(rule_id: str, row: Mapping[str, Any]) -> LineRule:
    def pattern(name: str) -> re.Pattern[str] | None:
        return re.compile(row[name] + (r"\Z" if name == "before" else "")) if name in row else None

    return LineRule(
        id=rule_id,
        anchors=tuple(row["anchors"]),
        before=pattern("before"),
        line=re.compile(row["line"]),
        each=pattern("each"),
        head=pattern("head"),
        row=pattern("row"),
        gap=row.get("gap", 1),
        chars_max=row.get("chars_max", _LINE_CHARS_MAX),
        checks=tuple(_CHECKS[name] for name in row.get("checks", ())),
        examples=tuple(row["examples"]),
        counter_examples=tuple(row.get("counter_examples", ())),
    )


def _line_end(text: str, at: int, end: int, chars_max: int, *, is_last: bool) -> int | None:
    """Return where the line ends that `at` stands in, or where no more of it is read; None if that is not known yet."""
    limit = at + chars_max
    newline = text.find("\n", at, min(end, limit))
    if newline >= 0:
        return newline
    if end >= limit:
        return limit
    return end if is_last else None
