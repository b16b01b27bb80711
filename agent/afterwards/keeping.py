"""Puts the answer of a turn into the cache, once it is committed."""

from __future__ import annotations

from agent.afterwards.finished import AfterTurn, Finished
from agent.cache.answers import AnswerCache, is_worth_keeping
from gateway.contracts.entries import TurnState


def keeping_answers(cache: AnswerCache) -> AfterTurn:
    """What is left to do after each turn; a failure of it is logged by whoever runs it."""

    async def keep(finished: Finished) -> None:
        turn = finished.turn
        is_done = finished.commit.state is TurnState.DONE
        if is_done and turn.asked is not None and turn.answer is not None and is_worth_keeping(turn):
            await cache.put(turn.asked, turn.answer)

    return keep
