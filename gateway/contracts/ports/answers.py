"""Where answers are kept, to be given again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.answers import KeptAnswer, Question
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


class AnswerShelf(Protocol):
    """Every look-up names the key that asks: nobody finds what another was answered. Raises `StoreUnavailable`."""

    async def find(self, question: Question, *, now_ms: int) -> KeptAnswer | None:
        """The answer to this very question, if one is kept and has not expired."""
        ...

    async def like(self, question: Question, *, now_ms: int, limit: int) -> Sequence[KeptAnswer]:
        """Answers to other questions of the same key, circumstances and guard, in other words than these in
        another order, which the same model embedded; the newest first."""
        ...

    async def use(self, question: Question, id_: int, *, now_ms: int) -> None:
        """An answer that was found is given again."""
        ...

    async def put(
        self,
        question: Question,
        text: CleanText,
        *,
        recalled: str,
        now_ms: int,
        ttl_s: int,
        owner_max: int,
        all_max: int,
    ) -> None:
        """Keep an answer in place of the one before. Of an owner and of all no more than so many are kept: those
        used last."""
        ...

    async def forget(self, owner: SessionKey) -> int:
        """Delete all that is kept of an owner, wherever he asked; how many answers there were."""
        ...
