"""What the answer cache keeps: an answer under the question and the circumstances it was given in."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.vectors import Embedding


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the cache knows it: whose it is, in full; the rest as digests.

    `circumstances` is all the answer depends on besides the question; `asked` is the question, `guard` what no
    likeness of meaning may pass over (numbers, negations, names), `words` its words in any order.
    """

    key: SessionKey
    circumstances: str
    asked: str
    guard: str
    words: str
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer that was kept for a question like the one that is looked for."""

    id: int
    text: CleanText
    embedding: Embedding
