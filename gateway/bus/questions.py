"""Questions to people while they are open, and the words that go back to the one who pressed a button."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, takewhile
from typing import Any, Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.bus.wire import bounded
from gateway.contracts.envelope import decode, decode_reply
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlRequest, InboundMessage, Reply
from gateway.contracts.questions import PutQuestion, Standing
from gateway.limits import BUS_WAIT_MAX_S

_OPEN: Final = b"open"


class Questions:
    """`gateway.contracts.ports.QuestionBus`."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys

    async def put(self, question: PutQuestion, *, ttl_s: float) -> None:
        """Open a question, unless its code is known; it is forgotten after `ttl_s`."""
        await self._line.run(
            script("put_question"),
            (self._keys.question(question.code),),
            (
                int(ttl_s * 1000),
                str(question.key),
                str(question.asked_by or ""),
                question.fence,
                question.digest,
                question.task_id,
                *map(bounded, question.replies),
            ),
        )

    async def standing(self, code: str) -> Standing | None:
        """None for a code that nobody knows (any more)."""
        fields = await self._line.call("HGETALL", self._keys.question(code))
        return _standing(code, fields) if fields else None

    async def settle(self, code: str, answer: ControlRequest | None) -> Standing | None:
        """Settle an open question, or close it without an answer (None). The first one counts: how it stands now."""
        envelope = b"" if answer is None else bounded(answer)
        found = await self._line.run(script("settle_question"), (self._keys.question(code),), (envelope,))
        return _standing(code, dict(zip(found[::2], found[1::2], strict=True))) if found else None

    async def told(self, press: InboundMessage, *, wait_s: float) -> Reply | None:
        """What the one who pressed a button is told, once; None if nobody said anything within `wait_s`."""
        found = await self._pool.call("BLPOP", self._keys.told(press.id), min(wait_s, BUS_WAIT_MAX_S))
        return decode_reply(found[1]) if found else None


def _standing(code: str, fields: Mapping[bytes, Any]) -> Standing:
    asked_by = fields[b"asked_by"].decode()
    envelopes = takewhile(bool, (fields.get(b"reply%d" % number) for number in count(1)))
    question = PutQuestion(
        code=code,
        key=SessionKey.parse(fields[b"key"].decode()),
        replies=tuple(decode_reply(envelope) for envelope in envelopes if envelope),
        asked_by=SessionKey.parse(asked_by) if asked_by else None,
        fence=int(fields[b"fence"]),
        digest=fields[b"digest"].decode(),
        task_id=fields[b"task_id"].decode(),
    )
    return Standing(question, fields[b"state"] == _OPEN, _answer(fields.get(b"answer", b"")))


def _answer(envelope: bytes) -> ControlRequest | None:
    if not envelope:
        return None
    request = decode(envelope)
    if not isinstance(request, ControlRequest):
        raise BadEnvelope(f"expected a control request, found {type(request).__name__}")
    return request
