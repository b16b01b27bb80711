"""Our connection to Matrix: a long poll of `/sync`, whose token moves after the bus has it all, and sends by `PUT`.

Every send names a transaction, and the server does the same transaction once: to repeat it is always safe.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from channels.core.adapter import CONNECTED, InboundHandler, SendBudget
from channels.core.message import Incoming, Raw, integer, mapping, mappings, text
from gateway.bus.inbound import Inbound
from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    BusUnavailable,
    CredentialsRejected,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.tasks import Backoff
from trivet_matrix.address import MatrixTarget, key_part, make_target, parse_target
from trivet_matrix.normalize import MatrixIdentity, normalize
from trivet_matrix.render import MatrixChunk, render, under

POLL_S: Final = 5.0
REJECTED: Final = "Matrix does not accept the access token; log in again and set the new one"


class MatrixAdapter:
    """One account. `ChannelAdapter`, `SupportsLookup`, `SupportsTyping`."""

    name = "matrix"
    typing_period_s = 20.0

    def __init__(self, *, token: str, api_base: str, positions: Inbound) -> None:
        self._api = f"{api_base}/_matrix/client/v3"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._positions = positions
        self._session: aiohttp.ClientSession | None = None
        self._me = MatrixIdentity("")
        self._ready = asyncio.Event()
        self.state = "connecting"

    @property
    def account(self) -> str:
        return f"{self.name}:{key_part(self._me.user_id)}"

    async def run(self, handler: InboundHandler) -> None:
        async with aiohttp.ClientSession(headers=self._headers) as self._session:
            backoff = Backoff(0.2, 30.0)
            try:
                while True:
                    try:
                        await self._listen(handler, backoff)
                    except CredentialsRejected:
                        raise
                    except (DeliveryError, BusUnavailable) as error:
                        self.state = f"not connected ({type(error).__name__})"
                        await asyncio.sleep(backoff.next_s())
            finally:
                self._ready.clear()

    async def until_ready(self) -> None:
        await self._ready.wait()

    def chunks(self, text: CleanText) -> Sequence[MatrixChunk]:
        return render(text)

    def marked(self, chunk: MatrixChunk, mark: CleanText) -> MatrixChunk:
        return under(mark, chunk)

    def budgets(self, address: ReplyAddress) -> Sequence[SendBudget]:
        return (SendBudget("account", 10.0, 50),)

    async def send(self, address: ReplyAddress, chunk: MatrixChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        target = parse_target(address.target)
        content: dict[str, Any] = {"msgtype": "m.notice", "body": chunk.plain}
        if not plain:
            content |= {"format": "org.matrix.custom.html", "formatted_body": chunk.html}
        if target.thread_id:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": target.thread_id}
        transaction = hashlib.blake2s(f"{send_id}{'p' if plain else ''}".encode(), digest_size=16).hexdigest()
        path = f"/rooms/{quote(target.room_id)}/send/m.room.message/{transaction}"
        return (text((await self._call("PUT", path, content, target)).get("event_id")),)

    async def find_sent(
        self, address: ReplyAddress, chunk: MatrixChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        """The transaction is the same: to send once more shows nothing twice."""
        return None

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        target = parse_target(address.target)
        path = f"/rooms/{quote(target.room_id)}/typing/{quote(self._me.user_id)}"
        await self._call("PUT", path, {"typing": bool(status), "timeout": 30_000}, target)

    async def _listen(self, handler: InboundHandler, backoff: Backoff) -> None:
        self._me = MatrixIdentity(text((await self._call("GET", "/account/whoami")).get("user_id")))
        self._ready.set()
        since = await self._positions.position(self.account)
        while True:
            wait_s = POLL_S if self.state == CONNECTED else 0.0
            query = {"timeout": str(int(wait_s * 1000)), "since": since or ""}
            answer = await self._call("GET", "/sync", query=query, within_s=wait_s + 10.0)
            for room_id, room in mapping(mapping(answer.get("rooms")).get("join")).items():
                await self._hand_in(room_id, mapping(room), handler)
            since = text(answer.get("next_batch"))
            await self._positions.set_position(self.account, since)
            self.state = CONNECTED
            backoff.reset()

    async def _hand_in(self, room_id: str, room: Raw, handler: InboundHandler) -> None:
        is_private = integer(mapping(room.get("summary")).get("m.joined_member_count")) == 2
        for event in mappings(mapping(room.get("timeline")).get("events")):
            incoming = normalize(event, room_id, self._me, is_private=is_private)
            if isinstance(incoming, Incoming):
                await handler.accept(incoming)

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        target: MatrixTarget | None = None,
        *,
        query: Mapping[str, str] | None = None,
        within_s: float = 10.0,
    ) -> Raw:
        """The answer. Raises the `DeliveryError` tree."""
        if self._session is None:
            raise SendFailed("not connected")
        try:
            async with (
                asyncio.timeout(within_s),
                self._session.request(method, self._api + path, json=body, params=query) as answer,
            ):
                said = mapping(await answer.json(content_type=None)) if answer.status < 500 else {}
                if answer.ok:
                    return said
                raise refusal(answer.status, said, target)
        except aiohttp.ClientConnectorError as error:
            raise SendFailed("Matrix cannot be reached") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise OutcomeUnknown(f"no answer ({type(error).__name__})") from error


def refusal(status: int, said: Raw, target: MatrixTarget | None) -> DeliveryError:
    """What an answer that is none means, in our tree."""
    match text(said.get("errcode")):
        case "M_LIMIT_EXCEEDED":
            return RateLimited((integer(said.get("retry_after_ms")) or 1000) / 1000)
        case "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN":
            return CredentialsRejected(REJECTED)
        case "M_BAD_JSON":
            return FormatRefused("the format is refused")
        case "M_ROOM_UPGRADED" if target is not None:
            moved = MatrixTarget(text(said.get("replacement_room")), target.thread_id)
            return AddressMoved(ReplyAddress("matrix", moved.lane, make_target(moved)))
        case "M_FORBIDDEN" | "M_NOT_FOUND":
            return AddressDead("the room is closed to us")
        case code:
            return OutcomeUnknown(f"HTTP {status} {code}".strip())
