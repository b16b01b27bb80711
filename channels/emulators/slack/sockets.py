"""Socket Mode: single-use tickets, up to ten websockets, envelopes to one of them in turn, acknowledgements back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from starlette.websockets import WebSocket, WebSocketDisconnect

from channels.emulators.severing import cut_of
from channels.emulators.slack.delivery import Failure, Parcel
from channels.emulators.slack.errors import Refused
from channels.emulators.slack.switches import Switches
from channels.emulators.traffic import RECORDED_MAX, Json

DEBUG_LIFE_S: Final = 360.0  # what `debug_reconnects=true` asks for
USUAL_LIFE_S: Final = 18_060
_HOST: Final = "applink-emulator"


@dataclass(slots=True, eq=False)
class _Socket:
    number: int
    abort: Callable[[], None]
    outlet: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    def send(self, frame: Json) -> None:
        self.outlet.put_nowait(json.dumps(frame))

    def close(self) -> None:
        self.outlet.put_nowait(None)


class SocketMode:
    def __init__(self, *, app_id: str, switches: Switches) -> None:
        self._app_id = app_id
        self._switches = switches
        self._tickets: set[str] = set()
        self._sockets: list[_Socket] = []
        self._numbers = itertools.count(1)
        self._turn = 0
        self._waiting: dict[str, Parcel] = {}
        self.acknowledged: deque[str] = deque(maxlen=RECORDED_MAX)  # envelope ids in the order of their answers
        self.sent: deque[Json] = deque(maxlen=RECORDED_MAX)  # every envelope, retries too
        self.refused_tickets = 0
        self.is_enabled = True

    @property
    def connections(self) -> int:
        return len(self._sockets)

    def new_url(self, host: str) -> str:
        """A websocket address that works once. Raises `Refused` while Socket Mode is switched off."""
        if not self.is_enabled:
            raise Refused("not_allowed_token_type")
        ticket = secrets.token_urlsafe(16)
        self._tickets.add(ticket)
        return f"ws://{host}/link/?ticket={ticket}&app_id={self._app_id}"

    # --- one websocket

    async def connection(self, websocket: WebSocket) -> None:
        """Serve one websocket until either side ends it; a used or unknown ticket gets no handshake."""
        ticket = websocket.query_params.get("ticket", "")
        if ticket not in self._tickets:
            self.refused_tickets += 1
            await websocket.close(1008)
            return
        self._tickets.discard(ticket)
        if self._switches.refuses_sockets > 0:
            self._switches.refuses_sockets -= 1
            await websocket.close(1013)
            return
        await websocket.accept()
        socket = _Socket(next(self._numbers), cut_of(websocket.scope))
        writer = asyncio.create_task(_write(websocket, socket.outlet))
        if self.connections >= self._switches.sockets_max:
            socket.send(_farewell("too_many_websockets"))
            socket.close()
            await writer
            return
        life_s = DEBUG_LIFE_S if websocket.query_params.get("debug_reconnects") else self._switches.connection_life_s
        retirement = asyncio.create_task(self._retire_after(socket, life_s))
        self._sockets.append(socket)
        socket.send(self._hello(life_s))
        try:
            while True:
                self._heard(await websocket.receive_text())
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self._sockets.remove(socket)
            retirement.cancel()
            writer.cancel()

    def _hello(self, life_s: float) -> Json:
        return {
            "type": "hello",
            "num_connections": self.connections,
            "connection_info": {"app_id": self._app_id},
            "debug_info": {
                "host": _HOST,
                "build_number": 1,
                "approximate_connection_time": int(life_s) or USUAL_LIFE_S,
            },
        }

    def _heard(self, text: str) -> None:
        try:
            frame = json.loads(text)
            envelope_id = frame["envelope_id"]
        except (ValueError, KeyError, TypeError):  # Slack ignores what it does not understand
            return
        self.acknowledged.append(envelope_id)
        parcel = self._waiting.pop(envelope_id, None)
        if parcel is not None:
            parcel.answer(frame.get("payload"))

    async def _retire_after(self, socket: _Socket, life_s: float) -> None:
        if life_s <= 0:
            return
        warning_s = min(self._switches.warning_s, life_s)
        await asyncio.sleep(life_s - warning_s)
        socket.send(_farewell("warning"))
        await asyncio.sleep(warning_s)
        socket.send(_farewell("refresh_requested"))
        socket.close()

    # --- envelopes

    async def attempt(self, parcel: Parcel, *, number: int, reason: str) -> Failure | None:
        """One envelope on the next socket in turn; without a socket it fails at once."""
        if not self._sockets:
            return Failure("connection_failed")
        envelope_id = str(uuid4())
        envelope: Json = {
            "envelope_id": envelope_id,
            "type": parcel.kind,
            "payload": parcel.payload,
            "accepts_response_payload": parcel.accepts_response,
        }
        if parcel.is_retried:
            envelope |= {"retry_attempt": number, "retry_reason": "timeout" if number else ""}
        while len(self._waiting) >= RECORDED_MAX:  # the oldest were given up long ago
            del self._waiting[next(iter(self._waiting))]
        self._waiting[envelope_id] = parcel
        self._turn += 1
        self.sent.append(envelope)
        self._sockets[self._turn % len(self._sockets)].send(envelope)
        try:
            await asyncio.wait_for(parcel.answered.wait(), self._switches.ack_within_s)
        except TimeoutError:
            return Failure("http_timeout")
        return None

    # --- what Slack or the network may do to the sockets

    def cut(self) -> None:
        """No close frame, as a network fault."""
        for socket in list(self._sockets):
            socket.abort()

    def disconnect(self, reason: str, *, sockets_max: int | None = None) -> None:
        """`warning`, `refresh_requested` or `link_disabled` to every socket, or the oldest of them; all but the warning
        end it."""
        self.is_enabled = self.is_enabled and reason != "link_disabled"
        for socket in self._sockets[:sockets_max]:
            socket.send(_farewell(reason))
            if reason != "warning":
                socket.close()


def _farewell(reason: str) -> Json:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": _HOST}}


async def _write(websocket: WebSocket, outlet: asyncio.Queue[str | None]) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the other side was faster
        while (frame := await outlet.get()) is not None:
            await websocket.send_text(frame)
        await websocket.close(1000)
