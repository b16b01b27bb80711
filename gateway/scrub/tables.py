"""A table with a column of secrets: the announcing word heads the column, the values stand in the rows below.

| user | password |        user;password        User     Password
|------|----------|        bob;…                bob      …
| bob  | …        |

Nothing but the rows tells that it is a table, so its header waits for the first of them.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.announced import AnnouncedValue
from gateway.scrub.judge import Bond, is_secret
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import Span
from gateway.scrub.states import Step
from gateway.scrub.words import Announcement, Family, family_of

_HEADER_CHARS_MAX: Final = 160
_LOOK_BACK_CHARS: Final = 96
"""No farther back may the line of a header begin: a stream keeps not much more (units.py)."""

_ROW_CHARS_MAX: Final = 400
_ROWS_MAX: Final = 200
_HEADER: Final = re.compile(r"[^\W\d_](?:[^\W\d]|[ _/-](?! )){0,31}")
"""The head of a column: a name of a few words."""

_AT_EDGE: Final = re.compile(r"[\"'`*]{0,3}[ \t]{0,40}(?:\r?\n|[|,;\t]|(?<= ) )")
_HEADER_REST: Final = re.compile(r"(?:[^\W\d]|[-/ \t|,;\"'`*\r])*\n?")
"""What follows on the line of a header; any other character says that this is none."""

_RULE_LINE: Final = re.compile(r"[\s|:=+-]*\Z")
_AROUND_CELL: Final = " \t\r\"'`*"
_OF_COLUMNS: Final = (Family.PERSONAL, Family.KEY)
_BEHIND_HEAD: Final = frozenset(" \t\r\n|,;\"'`*")
_BETWEEN_CELLS: Final = tuple(map(re.compile, (r"\|", r"\t", ";", ",", r"[ \t]{2,}")))
"""Signs that part the cells, those first that are no part of a text."""


class TableColumn:
    """State: an announcing word stands where the head of a column may stand."""

    __slots__ = ("_between", "_cells", "_columns", "_cuts", "_rows", "_value", "_word")

    def __init__(self, word: Announcement) -> None:
        self._word = word
        self._value: AnnouncedValue | None = None
        self._between: re.Pattern[str] | None = None
        self._cells = 0
        self._columns: dict[int, Family] = {}
        self._rows = 0
        self._cuts: list[Span] = []

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._word = self._word._replace(start=self._word.start - by, end=self._word.end - by)
        self._cuts = [cut._replace(start=cut.start - by, end=cut.end - by) for cut in self._cuts]
        if self._value is not None:
            self._value.moved(by)

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`. Without a header it is any announced value."""
        if self._value is not None:
            return self._value.step(text, at, end, is_last=is_last)
        if self._between is None:
            below = self._below_header(text, at, end, is_last=is_last)
            if below is None:
                return Step(at, waits=True)
            if below < 0:
                self._value = AnnouncedValue(self._word)
                return self._value.step(text, at, end, is_last=is_last)
            at = below
        return self._read_rows(text, at, end, is_last=is_last)

    def _below_header(self, text: str, at: int, end: int, *, is_last: bool) -> int | None:
        """Where the first row begins; negative if there is no table; None if that cannot be told yet."""
        line = text.rfind("\n", max(0, at - _LOOK_BACK_CHARS), at) + 1
        if not line and at > _LOOK_BACK_CHARS:
            return -1
        limit = min(end, at + _HEADER_CHARS_MAX)
        edge = _AT_EDGE.match(text, at, limit)
        if edge is None:
            is_open = not is_last and end - at < _HEADER_CHARS_MAX and not text[at:end].strip(_AROUND_CELL)
            return None if is_open else -1
        rest = _HEADER_REST.match(text, at, limit)
        if rest is None or not rest.group().endswith("\n"):
            is_open = not is_last and rest is not None and rest.end() == end and limit == end
            return None if is_open else -1
        below = rest.end()
        head = text[line : below - 1]
        for between in _BETWEEN_CELLS:
            if between.search(head.strip()):
                return self._columns_of(text, line, below, end, between, is_last=is_last)
        return -1

    def _columns_of(
        self, text: str, line: int, below: int, end: int, between: re.Pattern[str], *, is_last: bool
    ) -> int | None:
        heads = _cells(text, line, below - 1, between)
        columns: dict[int, Family] = {}
        for which, (start, stop) in enumerate(heads):
            if not _HEADER.fullmatch(text, start, stop):
                return -1
            family = self._word.family if stop == self._word.end else _headed(text[start:stop])
            if family in _OF_COLUMNS:
                columns[which] = family
        row_end = _line_end(text, below, end, is_last=is_last)
        if row_end is None:
            return None
        if len(heads) < 2 or not columns or len(_cells(text, below, row_end, between)) != len(heads):
            return -1
        self._between, self._cells, self._columns = between, len(heads), columns
        return below

    def _read_rows(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        assert self._between is not None, "the header was read"
        while True:
            while self._cuts:
                cut = self._cuts.pop(0)
                if cut.start >= at:
                    return Step(cut.end, cut=cut)
            if self._rows > _ROWS_MAX:
                return Step(at, is_over=True)
            row_end = _line_end(text, at, end, is_last=is_last)
            if row_end is None:
                return Step(at, waits=True)
            if text[at - 1] == "\n":
                cells = _cells(text, at, row_end, self._between)
                is_rule = _RULE_LINE.match(text, at, row_end) is not None and row_end > at
                if row_end < 0 or (len(cells) != self._cells and not is_rule):
                    return Step(at, is_over=True)
                self._rows += 1
                self._cuts = [] if is_rule else self._secrets(text, cells)
                if self._cuts:
                    continue
            if row_end >= end:
                return Step(row_end, is_over=is_last)
            at = row_end + 1

    def _secrets(self, text: str, cells: list[tuple[int, int]]) -> list[Span]:
        """The cells of a row that hold secrets."""
        return [
            Span(start, stop, "named/personal" if family is Family.PERSONAL else "named")
            for (start, stop), family in ((cells[which], family) for which, family in self._columns.items())
            if not any(map(str.isspace, text[start:stop]))
            and not PLACEHOLDER.search(text, start, stop)
            and is_secret(text[start:stop], family, Bond.SAID, is_quoted=False)
        ]


def may_be_head(word: Announcement, text: str) -> bool:
    """Does behind the word stand what ends a cell, or leads to its end?"""
    return word.family in _OF_COLUMNS and text[word.end : word.end + 1] in _BEHIND_HEAD


def _headed(cell: str) -> Family | None:
    """What the head of a column announces: its last word says it."""
    return family_of(re.split("[ _/-]", cell.lower())[-1])


def _line_end(text: str, at: int, end: int, *, is_last: bool) -> int | None:
    """Where the line ends that begins at `at`; negative if it is too long for a row; None if that is not told yet."""
    limit = at + _ROW_CHARS_MAX
    newline = text.find("\n", at, min(end, limit))
    if newline >= 0:
        return newline
    if end >= limit:
        return -1
    return end if is_last else None


def _cells(text: str, start: int, end: int, between: re.Pattern[str]) -> list[tuple[int, int]]:
    """The cells of one line without what stands around them."""
    while start < end and text[start] in " \t|":
        start += 1
    while end > start and text[end - 1] in " \t\r|":
        end -= 1
    parts: list[tuple[int, int]] = []
    for sign in between.finditer(text, start, end):
        parts.append((start, sign.start()))
        start = sign.end()
    parts.append((start, end))
    return [_bare(text, begin, stop) for begin, stop in parts]


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _AROUND_CELL:
        start += 1
    while end > start and text[end - 1] in _AROUND_CELL:
        end -= 1
    return start, end
