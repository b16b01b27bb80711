"""What a stretch of closed text holds: the secrets that can be told by their looks, and what to read on from.

One search finds the landmarks (landmarks.py); only around them is looked at more closely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.scrub.foretold import Candidate, candidates
from gateway.scrub.known import KnownValues
from gateway.scrub.landmarks import Chart, Site
from gateway.scrub.rules import RuleBook, Span
from gateway.scrub.words import Announcement, announcements

_TOKEN_CHARS_MIN: Final = 12
"""No token of any rule is shorter, so shorter runs (nearly all words) are not even looked at."""

_MARKED_CHARS_MIN: Final = 16
"""No token of a rule whose anchor is a pattern is shorter."""

_BEFORE_RUN: Final = re.compile(r"(?s:.*)(?<![!-~])")
_RUN: Final = re.compile(r"[!-~]+")
_MARKED_RUN: Final = re.compile(f"[!-~]{{{_MARKED_CHARS_MIN},}}")
_PRINTABLE: Final = bytes(ord("x") if ord("!") <= byte <= ord("~") else ord(" ") for byte in range(256))
_MARKED: Final = b"x" * _MARKED_CHARS_MIN
_LEFTOVERS_MAX: Final = 4
"""Tokens may stand wall to wall; deeper than this only somebody who builds it on purpose gets."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the closed text holds from here on, the next of each last."""

    spans: list[Span]
    words: list[Announcement]
    blocks: list[int]
    candidates: list[Candidate]

    def pass_by(self, at: int) -> None:
        """Drop what begins before `at`."""
        while self.spans and self.spans[-1].start < at:
            self.spans.pop()
        while self.words and self.words[-1].start < at:
            self.words.pop()
        while self.blocks and self.blocks[-1] < at:
            self.blocks.pop()
        while self.candidates and self.candidates[-1].start < at:
            self.candidates.pop()


class Lookout:
    """Looks over closed text for a machine, or for whoever wants to know whether it needs one."""

    __slots__ = ("_chart", "_known", "_rules", "attempts")

    def __init__(self, rules: RuleBook, known: KnownValues, chart: Chart) -> None:
        self.attempts = 0
        """How often a rule was tried: the measure of the work."""
        self._rules = rules
        self._known = known
        self._chart = chart

    def over(self, text: str, lowered: str, start: int, end: int, *, is_last: bool) -> Ahead:
        """What `text[start:end]` holds; `lowered` is the text in lower case, as long as the text. `is_last` says
        that no announcing word can follow."""
        anchors, places, blocks = self._chart.landmarks(text, lowered, start, end)
        spans = self._spans(text, start, end, anchors)
        words: list[Announcement] = []
        if places:
            borders = frozenset(span.end for span in spans)
            words = list(announcements(text, lowered, places, end, borders))
        spans.reverse()
        words.reverse()
        blocks.reverse()
        foretold = list(candidates(text, start, end, (at for at, _ in places), is_last=is_last))
        foretold.reverse()
        return Ahead(spans, words, blocks, foretold)

    def first_suspect(self, text: str, lowered: str, start: int, end: int) -> int:
        """Where in `text[start:end]` the first thing stands that a secret may begin with; `end` if none does."""
        anchors, places, _ = self._chart.landmarks(text, lowered, start, end)
        mark = self._rules.mark.search(text, start, end)
        suspects = [*(at for at, _ in anchors[:1]), *(at for at, _ in places[:1]), *([mark.start()] if mark else ())]
        return min(suspects, default=end)

    def _spans(self, text: str, start: int, end: int, anchors: Sequence[Site]) -> list[Span]:
        """The secrets of the closed text that can be told by their looks, in order, none over another."""
        known = list(self._known.spans(text, start, end))
        found = list(known)
        for at, stop in self._runs(text, start, end, anchors):
            for span in known:
                if at < span.end and span.start < stop:
                    found += self._tokens(text[at : span.start], at)
                    at = span.end
            found += self._tokens(text[at:stop], at)
        found.sort()
        return found

    def _runs(self, text: str, start: int, end: int, anchors: Sequence[Site]) -> list[tuple[int, int]]:
        """The runs of printable characters in which an anchor stands and that are long enough for a token."""
        runs = set()
        if _MARKED in text[start:end].encode(errors="surrogatepass").translate(_PRINTABLE):
            marked = _MARKED_RUN.finditer(text, start, end)
            runs = {run.span() for run in marked if self._rules.mark.search(run.group())}
        done = start
        for anchor, _ in anchors:
            if anchor >= done:
                before, run = _BEFORE_RUN.match(text, start, anchor), _RUN.match(text, anchor, end)
                at, done = before.end() if before else start, run.end() if run else anchor + 1
                if done - at >= _TOKEN_CHARS_MIN:
                    runs.add((at, done))
        return sorted(runs)

    def _tokens(self, run: str, offset: int, depth: int = 0) -> list[Span]:
        """The tokens of one run. What is left beside a token is looked at again as a run of its own, since
        that is what it will be when the token is gone: so a second scrub finds nothing new."""
        found: list[Span] = []
        at = 0
        while anchor := self._rules.anchor.search(run, at):
            floor = found[-1].end if found else 0
            at = anchor.start() + 1
            for rule in self._rules.beginning_with(run, anchor.start(), anchor.group()):
                self.attempts += 1
                span = rule.match(run, anchor.start(), floor)
                if span is not None:
                    found.append(span)
                    at = span.end
                    break
        if not found:
            return found
        between: list[Span] = []
        if depth < _LEFTOVERS_MAX:
            edges = [0, *(edge for span in found for edge in (span.start, span.end)), len(run)]
            for left, right in zip(edges[::2], edges[1::2], strict=True):
                between += self._tokens(run[left:right], offset + left, depth + 1)
        return between + [Span(span.start + offset, span.end + offset, span.rule) for span in found]
