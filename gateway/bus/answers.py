"""Answers that programs fetch: what was said to a message of a client, by the id of the message, for a while."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from gateway.bus.shards import Shard, Shards
from gateway.limits import FETCHED_ANSWERS_TTL_S

_SAID: Final = "said"


@dataclass(frozen=True, slots=True)
class FetchedAnswer:
    """One reply to a message. `id` is the same however often it is put; `choices` are commands that answer a question,
    by what their buttons say."""

    id: str
    text: str
    at_ms: int
    choices: tuple[tuple[str, str], ...] = ()


class FetchedAnswers:
    """The answers to messages, each in the shard of its id, forgotten FETCHED_ANSWERS_TTL_S after the last change.
    Raises `BusUnavailable`."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def expect(self, message_id: str) -> None:
        """Note that a message is on its lane, so that its client can ask for answers."""
        await self._put(message_id, _SAID, "")

    async def put(self, message_id: str, answer: FetchedAnswer) -> None:
        """Put an answer, or another text of it, however often this is asked."""
        await self._put(message_id, answer.id, json.dumps(asdict(answer)))

    async def of(self, message_id: str) -> Sequence[FetchedAnswer] | None:
        """Return the answers to a message, oldest first; None for a message that nobody knows (any more)."""
        shard = self._shards.named(message_id)
        found = await shard.line.call("HGETALL", shard.keys.fetched(message_id))
        answers = [_answer(row) for name, row in found.items() if name != _SAID.encode()]
        return sorted(answers, key=lambda answer: (answer.at_ms, answer.id)) if found else None

    async def _put(self, message_id: str, field: str, row: str) -> None:
        shard: Shard = self._shards.named(message_id)
        key = shard.keys.fetched(message_id)
        await shard.pool.transaction([("HSET", key, field, row), ("PEXPIRE", key, FETCHED_ANSWERS_TTL_S * 1000)])


def _answer(row: bytes) -> FetchedAnswer:
    told = json.loads(row)
    return FetchedAnswer(told["id"], told["text"], told["at_ms"], tuple((label, say) for label, say in told["choices"]))
