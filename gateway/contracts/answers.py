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
    likeness of meaning may pass over (numbers, negations, names), `words` its words in any order. `recalled` are
    lines of earlier conversations that the model is reminded of, which may repeat a question and its answer.
    """

    key: SessionKey
    circumstances: str
    asked: str
    guard: str
    words: str
    recalled: tuple[str, ...] = ()
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer that was kept. `recalled` is a digest of what the model had been reminded of besides."""

    id: int
    text: CleanText
    recalled: str
    embedding: Embedding | None = None
