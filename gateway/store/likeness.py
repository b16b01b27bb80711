"""Whether two facts say the same. Pure.

Careful on purpose: two facts that are kept apart cost a line, two that are taken for one cost a fact. So what
holds a digit or a sign (4711, C++, -5, €) has to be equal in both, whatever else they share.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

from gateway.contracts.vectors import Vector, cosine
from gateway.limits import FACT_COSINE_SAME, FACT_LIKENESS_SAME
from gateway.store.terms import UNSPACED

_EDGES: Final = " \t.,;:!?…\"'“”„«»‹›‘’()[]。，！？；：、"
_RUN: Final = regex.compile(rf"[{UNSPACED}]+|[^{UNSPACED}]+", regex.V1)


def normalised(text: str) -> str:
    """What two wordings have in common that differ in case, spaces, forms of letters and closing marks only."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)


def say_the_same(one: str, other: str, vectors: tuple[Vector, Vector] | None = None) -> bool:
    """Equal but for their form, or almost the same words, or (with vectors) the same to a model."""
    if normalised(one) == normalised(other):
        return True
    mine, yours = _words(one), _words(other)
    if not mine or not yours or _exact(mine) != _exact(yours):
        return False
    if len(mine & yours) >= FACT_LIKENESS_SAME * len(mine | yours):
        return True
    return vectors is not None and cosine(*vectors) >= FACT_COSINE_SAME


def _words(text: str) -> frozenset[str]:
    """Words with the signs inside and at their edges; of scripts without spaces, pairs of characters."""
    found: set[str] = set()
    for word in normalised(text).split():
        for run in _RUN.findall(word.strip(_EDGES)):
            is_unspaced = regex.match(rf"[{UNSPACED}]", run, regex.V1) and len(run) > 1
            found.update((run[at : at + 2] for at in range(len(run) - 1)) if is_unspaced else (run,))
    return frozenset(found)


def _exact(words: frozenset[str]) -> frozenset[str]:
    """Those that are no plain words: one of them makes all the difference."""
    return frozenset(word for word in words if not regex.fullmatch(r"[\p{L}\p{M}'’-]+", word))
