"""Puts the answer of a turn into the cache, once it is committed."""

from __future__ import annotations

from agent.afterwards.finished import AfterTurn, Finished
from agent.cache.answers import AnswerCache, is_worth_keeping
from gateway.contracts.entries import TurnState


def keeping_answers(cache: AnswerCache) -> AfterTurn:
    """What is left to do after each turn; a failure of it is logged by whoever runs it."""

    async def keep(finished: Finished) -> None:
        taken = finished.taken
        is_done = finished.commit.state is TurnState.DONE
        if is_done and taken.asked is not None and taken.answer is not None and is_worth_keeping(taken):
            await cache.put(taken.asked, taken.answer)

    return keep
