"""Interactions that Discord brings by HTTP go the same way as those of the gateway.

The first answer to one is the answer to the request; what follows is sent to Discord as ever. So an interaction
is made of the payload, and what the SDK would post as its first answer is caught on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import discord
from discord.http import MultipartParameters
from discord.webhook.async_ import AsyncWebhookAdapter, async_context

from channels.calls import Call, CallAnswer, come_again
from channels.discord import limits
from channels.discord.payloads import whole
from channels.discord.signature import is_genuine, is_worth_reading
from channels.raw import Raw, mapping
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

_PING: Final = 1
_JSON: Final = "application/json"
Payload = dict[str, Any]


class _FirstAnswer(AsyncWebhookAdapter):
    """The SDK's way to Discord, but for the first answer to one interaction."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caught: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self.is_sent = asyncio.Event()

    def create_interaction_response(
        self, interaction_id: int, token: str, *, params: MultipartParameters, **how: Any
    ) -> Any:
        """Files cannot be in an answer to a request: then it is posted as ever."""
        if params.files or self.caught.done():
            return super().create_interaction_response(interaction_id, token, params=params, **how)
        return self._catch(interaction_id, dict(params.payload or {}))

    async def _catch(self, interaction_id: int, payload: Payload) -> Payload:
        """What follows is refused until Discord has the first answer."""
        self.caught.set_result(payload)
        await self.is_sent.wait()
        await asyncio.sleep(limits.FIRST_ANSWER_SETTLES_S)
        return {"interaction": {"id": str(interaction_id), "type": payload.get("type", 0)}}


class Interactions:
    """The interactions of one application."""

    def __init__(self, public_key: str, clock: Clock) -> None:
        self._public_key = public_key
        self._clock = clock
        self._inside: tuple[discord.Client, Callable[[discord.Interaction], object]] | None = None

    @contextlib.contextmanager
    def open(self, client: discord.Client, heard: Callable[[discord.Interaction], object]) -> Iterator[None]:
        """Inside the context interactions are heard, by a client that is logged in."""
        self._inside = client, heard
        try:
            yield
        finally:
            self._inside = None

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it. Discord tries wrong signatures, too, and lets no endpoint pass that takes them."""
        timestamp = call.headers.get("x-signature-timestamp", "")
        signature = call.headers.get("x-signature-ed25519", "")
        now_s = self._clock.now_ms() // 1000
        if not is_worth_reading(timestamp=timestamp, signature=signature, now_s=now_s):
            return CallAnswer(401)
        body = await call.body()
        if not is_genuine(self._public_key, timestamp=timestamp, signature=signature, body=body, now_s=now_s):
            return CallAnswer(401)
        try:
            payload = mapping(json.loads(body))
        except (ValueError, RecursionError):
            return CallAnswer(400)
        if payload.get("type") == _PING:
            return CallAnswer(200, json.dumps({"type": _PING}), _JSON)
        return come_again() if self._inside is None else await self._hear(payload, *self._inside)

    async def _hear(
        self, payload: Raw, client: discord.Client, heard: Callable[[discord.Interaction], object]
    ) -> CallAnswer:
        """What a hearer answers to it. Raises `TimeoutError` when nobody does."""
        try:
            told = whole("INTERACTION_CREATE", payload)
            interaction = discord.Interaction(data=cast(Any, told), state=client._connection)
        except Exception:  # named boundary, adapter callback: a payload of a shape that the SDK does not know
            log.exception("discord: an interaction cannot be understood")
            return CallAnswer(400)
        answer = _FirstAnswer()
        token = async_context.set(answer)
        try:
            heard(interaction)  # the tasks that it starts remember the way
        finally:
            async_context.reset(token)
        async with asyncio.timeout(limits.CALL_ANSWERED_WITHIN_S):
            said = await answer.caught
        return CallAnswer(200, json.dumps(said), _JSON, sent=answer.is_sent.set)
