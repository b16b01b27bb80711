"""What a stretch of closed text holds: the secrets that can be told by their looks, and what to read on from.

One search finds the landmarks (landmarks.py); only around them is looked at more closely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.scrub.encoded import ENCODED_CHARS_MIN, encoded_runs, encoded_texts
from gateway.scrub.foretold import Candidate, candidates
from gateway.scrub.keyblock import BEGIN
from gateway.scrub.known import KnownValues
from gateway.scrub.landmarks import Chart
from gateway.scrub.rules import Rule, RuleBook, Site, Span
from gateway.scrub.talk import without_talk
from gateway.scrub.words import Announcement, announcements

_TOKEN_CHARS_MIN: Final = 12
"""No token of any rule is shorter, so shorter runs (nearly all words) are not even looked at."""

_BEFORE_RUN: Final = re.compile(r"(?s:.*)(?<![!-~])")
_RUN: Final = re.compile(r"[!-~]+")
_NEXT_CHARS_MAX: Final = 1024
"""So much of a token shows that it is one."""

_NEXT_TRIES_MAX: Final = 8
"""An anchor that begins nothing may stand in a long token thousands of times."""

_LEFTOVERS_MAX: Final = 4
"""Tokens may stand wall to wall; deeper than this only somebody who builds it on purpose gets."""


def _apart(known: Sequence[Span], others: Iterable[Span]) -> Iterator[Span]:
    """Those of the `others` that lie over none of the known, both in order."""
    nearest = 0
    for span in sorted(others):
        while nearest < len(known) and known[nearest].end <= span.start:
            nearest += 1
        if nearest == len(known) or known[nearest].start >= span.end:
            yield span


class Ahead(NamedTuple):
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


class _Run(NamedTuple):
    """Printable characters without a space, and where in them a token may begin: by place, the longest anchor."""

    start: int
    end: int
    sites: dict[int, str]


class Lookout:
    """Looks over closed text for a machine, or for whoever wants to know whether it needs one."""

    __slots__ = ("_chart", "_known", "_rules", "_secret_in", "attempts")

    def __init__(
        self, rules: RuleBook, known: KnownValues, chart: Chart, secret_in: Callable[[str], str | None] | None = None
    ) -> None:
        """`secret_in` names the rule that finds a secret in a text, for what is encoded; None: encodings stay."""
        self.attempts = 0
        """How often a rule was tried: the measure of the work."""
        self._rules = rules
        self._known = known
        self._chart = chart
        self._secret_in = secret_in

    def over(
        self, text: str, lowered: str, start: int, end: int, certain: Sequence[Span] = (), *, is_last: bool
    ) -> Ahead:
        """What `text[start:end]` holds; `lowered` is the text in lower case, as long as the text. `certain` are
        secrets that were found already, some of them elsewhere; `is_last` says that no announcing word can follow."""
        anchors, places, blocks = self._chart.landmarks(text, lowered, start, end)
        spans = self._spans(text, start, end, anchors, certain)
        words: list[Announcement] = []
        if places and (telling := without_talk(text, lowered, places, end, is_last=is_last)):
            borders = frozenset(span.end for span in spans)
            words = list(announcements(text, lowered, telling, end, borders))
        spans.reverse()
        words.reverse()
        blocks.reverse()
        foretold = list(candidates(text, lowered, start, end, places, is_last=is_last)) if places or not is_last else []
        foretold.reverse()
        return Ahead(spans, words, blocks, foretold)

    def first_suspect(self, text: str, lowered: str, start: int, end: int) -> int:
        """Where in `text[start:end]` the first thing stands that a secret may begin with; `end` if none does."""
        anchors, places, _ = self._chart.landmarks(text, lowered, start, end)
        suspects = [*(at for at, _ in anchors[:1]), *(at for at, _ in places[:1])]
        return min(suspects, default=end)

    def _spans(self, text: str, start: int, end: int, anchors: Sequence[Site], certain: Sequence[Span]) -> list[Span]:
        """The secrets of the closed text that can be told by their looks, in order, none over another."""
        known = list(self._known.spans(text, start, end))
        if certain:
            inside = (span for span in certain if start <= span.start and span.end <= end)
            known = sorted((*known, *_apart(known, inside)))
        found = list(known)
        nearest = 0
        for run in self._runs(text, start, end, anchors):
            at, stop = run.start, run.end
            while nearest < len(known) and known[nearest].end <= at:
                nearest += 1
            edges = [at]
            place = nearest
            while place < len(known) and known[place].start < stop:
                edges += known[place].start, known[place].end
                place += 1
            if len(edges) == 1:
                found += self._tokens(text[at:stop], at, run.sites.items())
            else:
                found += self._between(text, [*edges, max(stop, edges[-1])], 0)
        found.sort()
        if self._secret_in is not None and (encoded := list(self._encoded(text, start, end, found, self._secret_in))):
            found = sorted((*found, *encoded))
            found = sorted((*found, *self._beside(text, start, end, found, frozenset(encoded))))
        return found

    def _beside(
        self, text: str, start: int, end: int, found: Sequence[Span], encoded: frozenset[Span]
    ) -> Iterable[Span]:
        """The tokens beside encoded text, in runs of their own now that it is gone."""
        beside: set[Span] = set()
        for place, span in enumerate(found):
            if span in encoded:
                before, after = _BEFORE_RUN.match(text, start, span.start), _RUN.match(text, span.end, end)
                left = max(before.end() if before else start, found[place - 1].end if place else start)
                right = min(
                    after.end() if after else span.end, *(next.start for next in found[place + 1 : place + 2]), end
                )
                beside.update(self._between(text, [left, span.start, span.end, right], 1))
        return beside

    def _encoded(
        self, text: str, start: int, end: int, found: Sequence[Span], secret_in: Callable[[str], str | None]
    ) -> Iterator[Span]:
        """The encoded texts with a secret in them, beside what was `found`."""
        nearest = 0
        for run_at, stop in encoded_runs(text, start, end):
            while nearest < len(found) and found[nearest].end <= run_at:
                nearest += 1
            edges = [run_at]
            while nearest < len(found) and found[nearest].start < stop:
                edges += found[nearest].start, found[nearest].end
                nearest += 1
            for left, right in zip(edges[::2], (*edges[1::2], stop), strict=True):
                for encoded in encoded_texts(text[left:right]) if right - left >= ENCODED_CHARS_MIN else ():
                    self.attempts += 1
                    if (rule := secret_in(encoded.text)) is not None:
                        yield Span(left + encoded.start, left + encoded.end, rule)

    def _runs(self, text: str, start: int, end: int, anchors: Sequence[Site]) -> Iterable[_Run]:
        """The runs of printable characters in which an anchor stands and that are long enough for a token."""
        runs: list[_Run] = []
        run = _Run(start, start, {})
        for place, literal in anchors:
            if not self._rules.may_begin(text, place, literal, end):
                continue
            if place >= run.end:
                before, after = _BEFORE_RUN.match(text, start, place), _RUN.match(text, place, end)
                at, stop = before.end() if before else start, after.end() if after else place + 1
                run = _Run(at, stop, {})
                if stop - at >= _TOKEN_CHARS_MIN:
                    runs.append(run)
            run.sites[place - run.start] = literal
        return runs

    def _tokens(self, run: str, offset: int, sites: Iterable[Site], depth: int = 0) -> list[Span]:
        """The tokens of one run. What is left beside a token is looked at again as a run of its own, since
        that is what it will be when the token is gone: so a second scrub finds nothing new."""
        found: list[Span] = []
        at = 0
        sites = list(sites)
        for place, (site, literal) in enumerate(sites):
            if site < at:
                continue
            # Right behind a token, nothing stands before: so many of them may stand wall to wall.
            behind, gone = (run[at:], at) if found and site == at else (run, 0)
            for rule in self._rules.beginning_with(behind, site - gone, literal):
                self.attempts += 1
                span = rule.match(behind, site - gone, at - gone)
                if span is not None:
                    armour = behind.find(BEGIN, span.start + 1, span.end)  # a key file is no part of a token
                    end = (armour if armour >= 0 else span.end) + gone
                    at = self._next_token(run, rule, Span(span.start + gone, end, span.rule), sites, place + 1)
                    found.append(Span(span.start + gone, at, span.rule))
                    break
        if not found:
            return found
        edges = [0, *(edge for span in found for edge in (span.start, span.end)), len(run)]
        beside = self._between(run, edges, depth + 1) if depth < _LEFTOVERS_MAX else []
        return [Span(span.start + offset, span.end + offset, span.rule) for span in (*beside, *found)]

    def _next_token(self, run: str, rule: Rule, span: Span, sites: Sequence[Site], place: int) -> int:
        """Where another token begins in what a whole one has swallowed at its end, or the end of that: of two that
        stand wall to wall, the second begins with letters that the first could go on with. Of a kind that may have any
        length, the middle looks like another by chance: but that ends where the letters go on."""
        tries = _NEXT_TRIES_MAX
        while tries and place < len(sites) and sites[place][0] < span.end:
            site, literal = sites[place]
            place += 1
            if rule.is_whole(run[span.start : site]):
                tries -= 1
                self.attempts += 1
                behind = run[site : site + _NEXT_CHARS_MAX]
                least = 0 if rule.nominal else min(span.end - site, len(behind))
                others = (other.match(behind, 0, 0) for other in self._rules.beginning_with(behind, 0, literal))
                if any(other is not None and other.end >= least for other in others):
                    return site
        return span.end

    def _between(self, text: str, edges: Sequence[int], depth: int) -> list[Span]:
        """The tokens of the pieces of `text` between each second pair of edges, each a run of its own."""
        found: list[Span] = []
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            if right - left >= _TOKEN_CHARS_MIN:
                piece = text[left:right]
                found += self._tokens(piece, left, self._rules.sites(piece), depth)
        return found
