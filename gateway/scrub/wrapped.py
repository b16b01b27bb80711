"""Tokens that a line break runs through, as mail programs, terminals, shells and programmers break them.

A line that ends in what may be the beginning of a token is joined with the next ones, and the rules are asked
about the joined text. Until that is decided nothing from the beginning of the token on is closed (units.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from gateway.scrub.checks import is_wordy
from gateway.scrub.encoded import decoded_end
from gateway.scrub.lines import LINE_END, LINE_SIGN, Chain, chain_from, goes_on, head_before, may_have_line_ends
from gateway.scrub.rules import Rule, RuleBook, Span

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d|\Z)|(?:(?:19|20)\d{6}|1\d{9}(?:\d{3})?(?:\.\d{0,9})?)\Z", re.ASCII)
"""A date, an hour of a day, seconds or milliseconds since 1970: with one of these the lines of logs begin."""


class WrappedTokens:
    """Reads the line ends of a growing text, each once; keeps the tokens that go on behind one.

    `secret_in` names the rule that finds a secret in a text, for what is encoded over several lines.
    """

    __slots__ = ("_read_until", "_rules", "_secret_in", "attempts", "spans")

    def __init__(self, rules: RuleBook, secret_in: Callable[[str], str | None]) -> None:
        self.attempts = 0
        """How often a head or a rule was tried: the measure of the work."""
        self._rules = rules
        self._secret_in = secret_in
        self._read_until = 0
        self.spans: list[Span] = []

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._read_until -= by
        self.spans = [Span(span.start - by, span.end - by, span.rule) for span in self.spans]

    def pass_by(self, at: int) -> None:
        """Drop the tokens that begin before `at`."""
        if self.spans:
            self.spans = [span for span in self.spans if span.start >= at]

    def settle(self, text: str, start: int, border: int, *, is_last: bool) -> int:
        """Decide on all line ends in `text[start:border]`; returns up to where that was possible."""
        at = max(start, self._read_until)
        if not may_have_line_ends(text[at:border]):
            at = max(at, border)
        while sign := LINE_SIGN.search(text, at, border):
            at = sign.end()
            line_end = LINE_END.match(text, sign.start(), border)
            if line_end is None:
                continue
            at = line_end.end()
            if not goes_on(text, at, border):
                continue
            head = head_before(text, start, line_end.start())
            if head is None:
                continue
            chain = chain_from(text, head, border, is_last=is_last)
            if chain is None:
                self._read_until = line_end.start()
                return head.start
            self.spans += self._encoded(chain) if head.is_encoded else self._across(chain)
            at = max(at, chain.starts[-1])
        self._read_until = max(at, self._read_until)
        if not is_last and border > start and text[border - 1] in " \t":
            head = head_before(text, start, border)
            if head is not None and head.is_marked:
                return head.start
        return border

    def reaches_over(self, border: int) -> int:
        """Where a token begins that ends behind `border`; else `border`."""
        return min((span.start for span in self.spans if span.start < border < span.end), default=border)

    def _encoded(self, chain: Chain) -> list[Span]:
        """All of the lines, if there is a secret in what they encode together."""
        encoded = decoded_end("".join(chain.pieces)) if len(chain.pieces) > 1 else None
        rule = self._secret_in(encoded.text) if encoded else None
        return [Span(chain.starts[0], chain.end, rule)] if rule else []

    def _across(self, chain: Chain) -> list[Span]:
        """The tokens that reach from one piece into another. The last pieces may be words that only follow."""
        if len(chain.pieces) > 2 and not self._rules.sites("".join(chain.pieces)):
            return []
        for count in sorted({len(chain.pieces), len(chain.pieces) - 1, 2}, reverse=True):
            if 1 < count <= len(chain.pieces) and (found := self._tokens(chain, chain.pieces[:count])):
                return found
        return []

    def _tokens(self, chain: Chain, pieces: Sequence[str]) -> list[Span]:
        joined = "".join(pieces)
        may_begin, end = self._rules.may_begin, len(joined)
        sites = [each for each in self._rules.sites(joined) if may_begin(joined, *each, end)]
        if not sites:
            return []
        breaks = list(accumulate(map(len, pieces)))[:-1]
        found: list[Span] = []
        at = 0
        for site, literal in sites:
            if site < at:
                continue
            for rule in self._rules.beginning_with(joined, site, literal):
                self.attempts += 1
                span = rule.match(joined, site, at)
                if span is None:
                    continue
                at = span.end
                end = _accepted_end(rule, joined, site, span, breaks)
                if any(span.start < position < end for position in breaks):
                    start = chain.end_in_text(span.start + 1) - 1
                    found.append(Span(start, chain.end_in_text(end), span.rule))
                break
        return found


def _accepted_end(rule: Rule, joined: str, anchor_at: int, span: Span, breaks: list[int]) -> int:
    """How far the token really goes: what is a token already goes on only with what looks like more of it."""
    inside = [position for position in breaks if span.start < position < span.end]
    widths = {right - left for left, right in pairwise(breaks)}
    is_column = len(breaks) > 1 and len(widths) == 1
    for position, following in pairwise([*inside, span.end]):
        is_token = anchor_at < position and rule.match(joined[:position], anchor_at, span.start) is not None
        if not is_token:
            continue
        more = joined[position:following]
        is_complete = rule.is_complete(joined[span.start : position]) and not is_column
        is_said = is_wordy(more) or _TIME.match(more) is not None
        if is_complete or (is_said and not (is_column and _is_mixed(more))):
            return position
    return span.end


def _is_mixed(piece: str) -> bool:
    """Letters and digits and nothing else: the short last line of a column."""
    return piece.isalnum() and not piece.isalpha() and not piece.isdigit()
