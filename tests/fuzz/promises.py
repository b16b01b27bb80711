"""What the scrubber promises for every text, checked for one. An exception inside it is a broken promise, too."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from typing import Final

from gateway.contracts.messages import Finding
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from gateway.scrub.view import RUN_CHARS_MAX
from tests.fuzz.inputs import Case
from tests.scrubbing import TOKENS, fill
from tests.scrubbing.work import counted_work

GROWTH_OF_A_FINDING: Final = 40
ATTEMPTS_SPARE: Final = 64
"""A short text may be tried at a few more places than it has characters."""

SCRUBBER: Final = Scrubber(["correct horse", "xK9-known-value"], placeholder_key=b"fuzz")


class BrokenPromise(AssertionError):
    """One of the promises does not hold. `promise` names it."""

    def __init__(self, promise: str, details: str) -> None:
        super().__init__(f"{promise}: {details}")
        self.promise = promise


def check(case: Case) -> None:
    """Raises `BrokenPromise` or whatever the scrubber raised."""
    text = case.text()
    machine = SCRUBBER.machine()
    with counted_work() as work:
        clean = machine.feed(text, is_last=True)
    found = list(machine.findings)
    _hold("bounded work", work.total() <= len(text) + ATTEMPTS_SPARE, f"{work} for {len(text)} characters")
    _hold("bounded growth", len(clean) <= len(text) + GROWTH_OF_A_FINDING * len(found), f"{len(text)} to {len(clean)}")
    _hold("findings in order", _are_in_order(found, len(text)), repr(found))
    _hold("nothing else changes", _differs_in_findings_only(text, clean, found), repr(clean))
    stream = SCRUBBER.machine()
    chunks = case.chunks(text)
    last = len(chunks) - 1
    streamed = "".join(stream.feed(chunk, is_last=number == last) for number, chunk in enumerate(chunks))
    _hold("a stream equals the whole", streamed == clean, f"{streamed!r} for {clean!r}")
    _hold("a stream finds the same", stream.findings == found, f"{stream.findings} for {found}")
    if not _is_cut_by_force(text):
        again = SCRUBBER.machine().feed(clean, is_last=True)
        _hold("a second scrub changes nothing", again == clean, f"{again!r} for {clean!r}")
    if case.after and case.planted in recognised():
        _hold("a token between spaces goes", case.token() not in clean, repr(clean))


@cache
def recognised() -> frozenset[str]:
    """The kinds that are found when they stand alone: such must be found wherever they stand."""
    rng = random.Random(0)
    drawn = {kind: [fill(template, rng) for _ in range(8)] for kind, template in TOKENS.items()}
    return frozenset(
        kind for kind, tokens in drawn.items() if not any(token in SCRUBBER.scrub(f"a {token} b") for token in tokens)
    )


def _is_cut_by_force(text: str) -> bool:
    """Has it a run that the machine cuts wherever it is full? Such a run is cut elsewhere once its tokens have become
    placeholders, and behind the new cut a second scrub may find what stood in the middle of letters before."""
    return max(map(len, text.split()), default=0) >= RUN_CHARS_MAX


def _hold(promise: str, holds: bool, details: str) -> None:
    if not holds:
        raise BrokenPromise(promise, details)


def _are_in_order(found: list[Finding], length: int) -> bool:
    edges = [0, *(edge for finding in found for edge in (finding.start, finding.end)), length]
    return all(left <= right for left, right in itertools.pairwise(edges)) and all(
        finding.start < finding.end for finding in found
    )


def _differs_in_findings_only(text: str, clean: str, found: list[Finding]) -> bool:
    at = 0
    for number, stays in enumerate(_kept(text, found)):
        if number:
            stand_in = PLACEHOLDER.match(clean, at)
            if stand_in is None:
                return False
            at = stand_in.end()
        if not clean.startswith(stays, at):
            return False
        at += len(stays)
    return at == len(clean)


def _kept(text: str, found: list[Finding]) -> Iterator[str]:
    edges = [0, *(edge for finding in found for edge in (finding.start, finding.end)), len(text)]
    return (text[left:right] for left, right in zip(edges[::2], edges[1::2], strict=True))
