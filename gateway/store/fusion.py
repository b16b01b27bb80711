"""Several rankings of the same things made into one. Pure.

Reciprocal-rank fusion: a thing gets 1 / (60 + its rank) from each ranking that has it. Places count, scores do
not, so rankings that measure in different units (shared words, cosines) can be added. 60 is the constant of the
paper (Cormack, Clarke, Büttcher 2009): agreement of two rankings outweighs the top of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

_DAMPING: Final = 60


def fused(*rankings: Sequence[T]) -> list[T]:
    """Everything that stands in one of the rankings, once, best first. Of equals the one that came first in an
    earlier ranking comes first."""
    scores: defaultdict[T, float] = defaultdict(float)
    for ranking in rankings:
        for rank, thing in enumerate(dict.fromkeys(ranking), 1):
            scores[thing] += 1 / (_DAMPING + rank)
    return sorted(scores, key=lambda thing: -scores[thing])
