"""The scrubber: raw text in, `CleanText` out. Nothing else in Trivet makes `CleanText` of raw text.

It fails closed: whatever goes wrong inside, the raw text does not come out.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from gateway.contracts.messages import CleanText, Finding, RemovedSecrets
from gateway.scrub.known import KnownValues
from gateway.scrub.machine import Machine
from gateway.scrub.placeholder import WHOLE_TEXT, WHOLE_TEXT_KIND, Placeholders, kind_of
from gateway.scrub.rules import rule_book

BUDGET_S: Final = 2.0
"""Processor time, so that a busy or sleeping machine costs nobody a message; enough for some 5 MB."""

_KEY_BYTES: Final = 32


class Scrubbed(NamedTuple):
    """A clean text and what was removed from it; the findings point into the raw text."""

    text: CleanText
    findings: tuple[Finding, ...]


class Scrubber:
    """`gateway.contracts.ports.Scrubber` on the rules of `rules.toml` and the values it is told to keep.

    `known_values` are this process's own secrets (tokens, passwords, API keys), each of at least six
    characters. `placeholder_key` makes placeholders comparable between processes that share it; by default
    it is random, so that they can be compared within this process only.
    """

    def __init__(
        self,
        known_values: Iterable[str] = (),
        *,
        placeholder_key: bytes | None = None,
        budget_s: float = BUDGET_S,
        spent_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._known = KnownValues(known_values)
        self._placeholders = Placeholders(placeholder_key or secrets.token_bytes(_KEY_BYTES))
        self._budget_s = budget_s
        self._spent_s = spent_s

    def for_chat(self, chat: str) -> Scrubber:
        """This scrubber with the placeholders of one chat (a session key's text). One HMAC at first, then none:
        rules and known values are shared."""
        narrowed = copy.copy(self)
        narrowed._placeholders = self._placeholders.of(chat)
        return narrowed

    def scrub(self, text: str) -> CleanText:
        """The text with a placeholder for each secret. Never raises; a failure replaces the whole text."""
        return self.examine(text).text

    def findings(self, text: str) -> Sequence[Finding]:
        """Which rule fired where in `text`; never the secret itself."""
        return self.examine(text).findings

    def removed(self, text: str) -> Mapping[str, str]:
        """The secrets of `text` by the placeholders that `scrub` puts in their place: for the vault, and for nobody
        else. Empty when something goes wrong."""
        made: dict[str, str] = {}
        noting = copy.copy(self)
        noting._placeholders = self._placeholders.noting(made)
        return made if WHOLE_TEXT not in noting.scrub(text) else {}

    def examine(self, text: str) -> Scrubbed:
        """`scrub` and `findings` in one pass."""
        try:
            machine = self.machine()
            clean = machine.feed(text, is_last=True)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            return Scrubbed(CleanText(WHOLE_TEXT), (Finding(WHOLE_TEXT_KIND, 0, len(text)),))
        return Scrubbed(CleanText(clean), tuple(machine.findings))

    def stream(self) -> StreamScrubber:
        """A scrubber for one text that arrives in pieces."""
        return StreamScrubber(self)

    def machine(self) -> Machine:
        """A machine for one text."""
        return Machine(rule_book(), self._known, self._placeholders, budget_s=self._budget_s, spent_s=self._spent_s)


class StreamScrubber:
    """One text that arrives in pieces. However it is cut, the joined output equals `scrub` of the whole.

    What comes out of `feed` is final; what could still turn out to be part of a secret waits for more. The
    time budget is that of one piece, and memory does not grow with the text.
    """

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        self.removed: Counter[str] = Counter()
        """How many secrets of each kind were removed since the stream was made."""
        self.has_failed = False
        """Is the rest of this text withheld? A placeholder for the whole was given in its place."""
        self._machine: Machine | None = None
        self._scrubber = scrubber or _default()

    def feed(self, chunk: str) -> CleanText:
        """Take the next piece; returns what is certain by now, often nothing."""
        return self._read(chunk, is_last=False)

    def flush(self) -> CleanText:
        """Say that the text is over; returns the rest. The next `feed` begins a new text."""
        rest = self._read("", is_last=True)
        self._machine, self.has_failed = None, False
        return rest

    def _read(self, chunk: str, *, is_last: bool) -> CleanText:
        if self.has_failed:
            return CleanText("")
        try:
            if self._machine is None:
                self._machine = self._scrubber.machine()
            clean = self._machine.feed(chunk, is_last=is_last)
            self.removed.update(kind_of(finding.rule) for finding in self._machine.taken_findings())
            return CleanText(clean)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            self.has_failed = True
            self.removed["text"] += 1
            return CleanText(WHOLE_TEXT)


def scrub(text: str) -> CleanText:
    """`Scrubber.scrub` with the default rules and no known values."""
    return _default().scrub(text)


def findings(text: str) -> Sequence[Finding]:
    """`Scrubber.findings` with the default rules and no known values."""
    return _default().findings(text)


def report(text: str) -> Mapping[str, int]:
    """How many secrets of each kind a text holds, for `trivet scrub --report`."""
    return {removed.kind: removed.count for removed in removed_secrets(findings(text))}


def removed_secrets(found: Iterable[Finding]) -> tuple[RemovedSecrets, ...]:
    """What the user is told: how many of each kind, most frequent first. No lengths, no positions."""
    counts = Counter(kind_of(finding.rule) for finding in found)
    return tuple(RemovedSecrets(kind, count) for kind, count in counts.most_common())


@cache
def _default() -> Scrubber:
    return Scrubber()
