"""The smallest case that still breaks the same promise: pieces and cuts are left out one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tests.fuzz.inputs import Case, Piece
from tests.scrubbing import TOKENS

TRIES_MAX: Final = 150
ANY_KIND: Final = next(iter(TOKENS))
"""Of a case without a planted token the kind does not matter."""


def smallest(case: Case, breaks: Callable[[Case], bool]) -> Case:
    """`breaks` says whether a smaller case is still the same finding."""
    tries = 0
    is_smaller = True
    while is_smaller and tries < TRIES_MAX:
        is_smaller = False
        for smaller in _smaller(case):
            tries += 1
            if breaks(smaller):
                case, is_smaller = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    if case.after:
        yield replace(case, before=case.before + case.after, after=(), planted=ANY_KIND)
    for at in range(len(case.before)):
        yield replace(case, before=_without(case.before, at))
    for at in range(len(case.after)):
        if len(case.after) > 1:
            yield replace(case, after=_without(case.after, at))
    if case.after and case.after != (Piece("."),):
        yield replace(case, after=(Piece("."),))
    for at in range(len(case.cuts)):
        yield replace(case, cuts=case.cuts[:at] + case.cuts[at + 1 :])
    if not case.after and case.planted != ANY_KIND:
        yield replace(case, planted=ANY_KIND)
    for at, piece in enumerate(case.before):
        if piece.times > 1:
            yield replace(
                case, before=(*case.before[:at], replace(piece, times=piece.times // 2), *case.before[at + 1 :])
            )
    if case.seed:
        yield replace(case, seed=0)


def _without(pieces: tuple[Piece, ...], at: int) -> tuple[Piece, ...]:
    return pieces[:at] + pieces[at + 1 :]
