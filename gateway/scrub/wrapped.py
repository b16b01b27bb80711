"""Tokens that a line break runs through, as mail programs, terminals, shells and programmers break them.

    ghp_x1…            ghp_x1…\\           ghp_x1…=           "ghp_x1…" +
        …y2                …y2            > …y2                   "…y2"

A line that ends in what may be the beginning of a token is joined with the next ones, and the rules are asked
about the joined text. Until that is decided nothing from the beginning of the token on is closed (units.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from gateway.scrub.checks import is_wordy
from gateway.scrub.heads import is_beginning, open_head, token_at
from gateway.scrub.rules import Rule, RuleBook, Span

_PIECE_CHARS_MAX: Final = 2048
_JOINED_CHARS_MAX: Final = 6144
"""A longer token than this is not put together; it was found in part already."""

_PIECES_MAX: Final = 64
_NEAR_CHARS: Final = 96
_RANDOM_CHARS_MIN: Final = 4
"""A piece without any mark of its own may be the left part of a token whose mark comes later."""

_UNMARKED_CHARS_MAX: Final = 128
"""Without a mark, no more than this waits for one (and in any case the next line does)."""

_RUN: Final = r"A-Za-z0-9_+/=.:~\-"
_BEFORE: Final = r"\\{0,3}[\"'`]?[ \t]{0,4}(?:[=+&\\]{1,2}[ \t]{0,4})?"
_LINE: Final = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028\u2029]|(?:\\{1,4}r)?\\{1,4}n|<br ?/?>)"
_LINE_END: Final = re.compile(rf"(?<=[{_RUN}\"'`\\ \t]){_LINE}")
_LINE_SIGN: Final = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029\\\\<]")
_AROUND_RUN: Final = " \t\\\"'`+&="
_GAP: Final = re.compile(rf"{_BEFORE}{_LINE}[ \t>|#*/+\"'`\\]{{0,64}}")
_GAP_BEGUN: Final = re.compile(rf"{_BEFORE}\Z")
_RUN_CHAR: Final = re.compile(f"[{_RUN}]")
_PIECE: Final = re.compile(f"[{_RUN}]{{1,{_PIECE_CHARS_MAX + 1}}}")
_HEAD: Final = re.compile(rf"(?<![{_RUN}])(?P<run>[{_RUN}]+){_BEFORE}\Z")
_LONG_HEAD: Final = re.compile(rf"[{_RUN}]+{_BEFORE}\Z")


class Head(NamedTuple):
    """The end of a line that may be the beginning of a token. `is_marked`: an anchor says so."""

    start: int
    end: int
    is_marked: bool


class Chain(NamedTuple):
    """The pieces of consecutive lines that may be one token, and where each begins in the text."""

    starts: tuple[int, ...]
    pieces: tuple[str, ...]
    end: int

    def end_in_text(self, at: int) -> int:
        """Where the character before `at` of the joined pieces ends in the text."""
        for start, piece in zip(self.starts, self.pieces, strict=True):
            if at <= len(piece):
                return start + at
            at -= len(piece)
        return self.end


class WrappedTokens:
    """Reads the line ends of a growing text, each once; keeps the tokens that go on behind one."""

    __slots__ = ("_read_until", "_rules", "spans")

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._read_until = 0
        self.spans: list[Span] = []

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front; what was found there has been cut out already."""
        self._read_until -= by
        self.spans = [Span(span.start - by, span.end - by, span.rule) for span in self.spans if span.start >= by]

    def settle(self, text: str, start: int, border: int, *, is_last: bool) -> int:
        """Decide on all line ends in `text[start:border]`; returns up to where that was possible."""
        at = max(start, self._read_until)
        while sign := _LINE_SIGN.search(text, at, border):
            at = sign.end()
            line_end = _LINE_END.match(text, sign.start(), border)
            if line_end is None:
                continue
            at = line_end.end()
            head = _open_head(text, start, line_end.start())
            if head is None:
                continue
            chain = _chain(text, head, border, is_last=is_last)
            if chain is None:
                self._read_until = line_end.start()
                return head.start
            self.spans += self._across(chain)
            at = max(at, chain.starts[-1])
        self._read_until = max(at, self._read_until)
        if not is_last and border > start and text[border - 1] in " \t":
            head = _open_head(text, start, border)
            if head is not None and head.is_marked:
                return head.start
        return border

    def _across(self, chain: Chain) -> list[Span]:
        """The tokens that reach from one piece into another. The last pieces may be words that only follow."""
        for count in sorted({len(chain.pieces), len(chain.pieces) - 1, 2}, reverse=True):
            if 1 < count <= len(chain.pieces) and (found := self._tokens(chain, chain.pieces[:count])):
                return found
        return []

    def _tokens(self, chain: Chain, pieces: Sequence[str]) -> list[Span]:
        joined = "".join(pieces)
        breaks = list(accumulate(map(len, pieces)))[:-1]
        found: list[Span] = []
        at = floor = 0
        while anchor := self._rules.anchor.search(joined, at):
            at = anchor.start() + 1
            for rule in self._rules.beginning_with(joined, anchor.start(), anchor.group()):
                span = rule.match(joined, anchor.start(), floor)
                if span is None:
                    continue
                at = floor = span.end
                end = _accepted_end(rule, joined, anchor.start(), span, breaks)
                if any(span.start < position < end for position in breaks):
                    start = chain.end_in_text(span.start + 1) - 1
                    found.append(Span(start, chain.end_in_text(end), span.rule))
                break
        return found


def _open_head(text: str, start: int, at: int) -> Head | None:
    """The piece before `at` that may go on behind it."""
    near = max(start, at - _NEAR_CHARS)
    if not _RUN_CHAR.match(text[near:at].rstrip(_AROUND_RUN)[-1:]):
        return None
    if _LONG_HEAD.match(text, near, at):
        near = max(start, at - _PIECE_CHARS_MAX)
    found = _HEAD.search(text, near, at)
    if found is None:
        return None
    begin, end = found.span("run")
    run = text[begin:end]
    if len(run) < 2 or run.endswith("=="):
        return None
    if run.endswith("="):
        run, end = run[:-1], end - 1
    if run.isalpha() and (run.islower() or run.istitle()):
        return Head(begin, end, is_marked=True) if is_beginning(run) else None
    opened = open_head(run)
    if opened is not None:
        return Head(begin + opened, end, is_marked=True)
    if is_beginning(run) or run.isdigit() or (len(run) >= _RANDOM_CHARS_MIN and not is_wordy(run)):
        return Head(begin, end, is_marked=False)
    return None


def _chain(text: str, head: Head, border: int, *, is_last: bool) -> Chain | None:
    """The head and what follows it line by line. None: that cannot be told yet."""
    starts, pieces = [head.start], [text[head.start : head.end]]
    stop, chars = head.end, head.end - head.start
    while len(pieces) < _PIECES_MAX and (head.is_marked or len(pieces) == 1 or chars <= _UNMARKED_CHARS_MAX):
        gap = _GAP.match(text, stop, border)
        if gap is None:
            if not is_last and _GAP_BEGUN.match(text, stop, border):
                return None
            break
        found = _PIECE.match(text, gap.end(), border)
        if not is_last and (found.end() if found else gap.end()) == border:
            return None
        if found is None or chars + len(found.group()) > _JOINED_CHARS_MAX:
            break
        piece, stop = found.group(), found.end()
        if token_at(piece, 0):
            break
        if piece.endswith("=") and not piece.endswith("=="):
            piece, stop = piece[:-1], stop - 1
        starts.append(found.start())
        pieces.append(piece)
        chars += len(piece)
        if is_wordy(piece):
            break
    return Chain(tuple(starts), tuple(pieces), stop)


def _accepted_end(rule: Rule, joined: str, anchor_at: int, span: Span, breaks: list[int]) -> int:
    """How far the token really goes: what is a token already goes on only with what looks like more of it."""
    inside = [position for position in breaks if span.start < position < span.end]
    widths = {right - left for left, right in pairwise(breaks)}
    is_column = len(breaks) > 1 and len(widths) == 1
    for position, following in pairwise([*inside, span.end]):
        is_token = anchor_at < position and rule.match(joined[:position], anchor_at, span.start) is not None
        if not is_token:
            continue
        is_complete = rule.is_complete(joined[span.start : position]) and not is_column
        if is_complete or is_wordy(joined[position:following]):
            return position
    return span.end
