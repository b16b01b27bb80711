"""Discord's gateway: a websocket per session, HELLO, IDENTIFY or RESUME, heartbeats, a replay of what was missed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from channels.emulators.discord import shapes
from channels.emulators.discord.sessions import (
    INTENTS_KNOWN,
    CloseCode,
    Farewell,
    Happening,
    Intent,
    Op,
    Outlet,
    Session,
    frame,
)
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import World
from channels.emulators.severing import cut_of
from channels.emulators.stage import Faults
from channels.emulators.traffic import Json

FRAME_BYTES_MAX: Final = 4096
FRAMES_PER_MINUTE_MAX: Final = 120
_PRIVILEGED: Final = Intent.MESSAGE_CONTENT
_ENDED_BY_CLIENT: Final = (1000, 1001)  # these close codes end a session at once; every other leaves it resumable


class _Closed(Exception):
    """Our side ends the connection with this farewell."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.farewell = Farewell(code, reason)


class Gateway:
    """All sessions of the bot. `clock_s` gives seconds; only differences of it are used."""

    def __init__(
        self,
        *,
        world: World,
        token: str,
        application_id: int,
        switches: Switches,
        faults: Faults,
        clock_s: Callable[[], float],
    ) -> None:
        self._world = world
        self._token = token
        self._application_id = application_id
        self._switches = switches
        self._faults = faults
        self._clock_s = clock_s
        self._sessions: dict[str, Session] = {}
        self._lines: dict[Outlet, Callable[[], None]] = {}
        self.identified = 0
        self.resumed = 0
        self.opened = 0

    @property
    def is_connected(self) -> bool:
        return any(session.outlet is not None for session in self._sessions.values())

    def dispatch(self, happening: Happening) -> None:
        """To every session that asked for it and can still hear of it, now or after a RESUME."""
        self._forget_the_dead()
        for session in self._sessions.values():
            if session.hears(happening):
                session.dispatch(happening.name, happening.shape(session.reads_everything))

    # --- what a test or a fault may do to all connections

    def cut(self) -> None:
        """As a network fault: no close frame."""
        for abort in list(self._lines.values()):
            abort()

    def close(self, code: int) -> None:
        self._say_to_all(Farewell(code))

    def ask_to_reconnect(self) -> None:
        """Op 7, as before a restart of Discord's servers."""
        self._say_to_all(frame(Op.RECONNECT))

    def invalidate(self, *, resumable: bool) -> None:
        """Op 9. Not resumable: the sessions are gone, and with them what they had not heard."""
        self._say_to_all(frame(Op.INVALID_SESSION, resumable))
        if not resumable:
            self._sessions.clear()

    def _say_to_all(self, item: str | Farewell) -> None:
        for outlet in self._lines:
            outlet.put_nowait(item)

    # --- the connection

    async def connection(self, websocket: WebSocket) -> None:
        """Serve one websocket until either side ends it."""
        self.opened += 1
        if self._switches.refuses_sockets > 0:
            self._switches.refuses_sockets -= 1
            await websocket.close()
            return
        await websocket.accept()
        outlet: Outlet = asyncio.Queue()
        self._lines[outlet] = cut_of(websocket.scope)
        writer = asyncio.create_task(_write(websocket, outlet))
        code = 1006
        try:
            await self._converse(websocket, outlet)
        except _Closed as closed:
            outlet.put_nowait(closed.farewell)
            code = closed.farewell.code
            await writer
        except WebSocketDisconnect as gone:
            code = gone.code
        finally:
            writer.cancel()
            del self._lines[outlet]
            self._leave(outlet, code)

    async def _converse(self, websocket: WebSocket, outlet: Outlet) -> None:
        if websocket.query_params.get("v", "10") not in ("9", "10"):
            raise _Closed(CloseCode.INVALID_API_VERSION, "Invalid API version.")
        outlet.put_nowait(frame(Op.HELLO, {"heartbeat_interval": self._switches.heartbeat_ms, "_trace": []}))
        if self._switches.drops_after_hello > 0:
            self._switches.drops_after_hello -= 1
            raise _Closed(CloseCode.UNKNOWN_ERROR, "Unknown error.")
        session: Session | None = None
        recent: deque[float] = deque()
        while True:
            message = await self._receive(websocket)
            self._count_frame(recent)
            op, data = message.get("op"), message.get("d")
            if op == Op.HEARTBEAT:
                if not self._faults.other.get("ignore_heartbeats"):
                    outlet.put_nowait(frame(Op.HEARTBEAT_ACK))
            elif op == Op.IDENTIFY:
                if session is not None:
                    raise _Closed(CloseCode.ALREADY_AUTHENTICATED, "Already authenticated.")
                session = self._identify(websocket, outlet, _mapping(data))
            elif op == Op.RESUME:
                session = self._resume(outlet, _mapping(data))
            elif session is None:
                raise _Closed(CloseCode.NOT_AUTHENTICATED, "Not authenticated.")
            elif op == Op.REQUEST_MEMBERS:
                self._send_members(session, _mapping(data))
            elif op not in (Op.PRESENCE, Op.VOICE_STATE):
                raise _Closed(CloseCode.UNKNOWN_OPCODE, "Unknown opcode.")

    async def _receive(self, websocket: WebSocket) -> Json:
        patience_s = self._switches.heartbeat_ms / 1000 * 2
        try:
            text = await asyncio.wait_for(websocket.receive_text(), patience_s)
        except TimeoutError:
            raise _Closed(CloseCode.SESSION_TIMED_OUT, "Session timed out.") from None
        except KeyError:
            raise _Closed(CloseCode.DECODE_ERROR, "Error while decoding payload.") from None
        if len(text.encode()) > FRAME_BYTES_MAX:
            raise _Closed(CloseCode.DECODE_ERROR, "Error while decoding payload.")
        try:
            return _mapping(json.loads(text))
        except ValueError:
            raise _Closed(CloseCode.DECODE_ERROR, "Error while decoding payload.") from None

    def _count_frame(self, recent: deque[float]) -> None:
        now_s = self._clock_s()
        recent.append(now_s)
        while recent[0] < now_s - 60:
            recent.popleft()
        if len(recent) > FRAMES_PER_MINUTE_MAX:
            raise _Closed(CloseCode.RATE_LIMITED, "You are being rate limited.")

    # --- beginning and taking up again

    def _identify(self, websocket: WebSocket, outlet: Outlet, data: Json) -> Session:
        intents = self._admitted(data)
        index, count = data.get("shard") or (0, 1)
        if not 0 <= index < count:
            raise _Closed(CloseCode.INVALID_SHARD, "Invalid shard.")
        self._switches.sessions_left -= 1
        self.identified += 1
        session = Session(
            secrets.token_hex(16),
            intents,
            (index, count),
            outlet=outlet,
            reads_everything=bool(intents & Intent.MESSAGE_CONTENT),
        )
        self._sessions[session.id] = session
        guilds = [g for g in self._world.guilds.values() if (g.id >> 22) % count == index]
        ready: Json = {
            "v": 10,
            "user": shapes.own_user(self._world),
            "guilds": [{"id": str(g.id), "unavailable": True} for g in guilds],
            "private_channels": [],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": gateway_url(websocket),
            "application": {"id": str(self._application_id), "flags": 0},
            "_trace": [],
        }
        session.dispatch("READY", ready | ({"shard": [index, count]} if "shard" in data else {}))
        if intents & Intent.GUILDS:
            for guild in guilds:
                told = shapes.guild_create(self._world, guild)
                session.dispatch("GUILD_CREATE", told | ({"threads": []} if self._switches.hides_threads else {}))
        return session

    def _admitted(self, data: Json) -> Intent:
        if _bare(str(data.get("token", ""))) != self._token:
            raise _Closed(CloseCode.AUTHENTICATION_FAILED, "Authentication failed.")
        bits = data.get("intents")
        if not isinstance(bits, int) or not 0 <= bits <= INTENTS_KNOWN:
            raise _Closed(CloseCode.INVALID_INTENTS, "Invalid intent(s).")
        if bits & _PRIVILEGED and not self._switches.has_message_content:
            raise _Closed(CloseCode.DISALLOWED_INTENTS, "Disallowed intent(s).")
        return Intent(bits)

    def _resume(self, outlet: Outlet, data: Json) -> Session | None:
        if _bare(str(data.get("token", ""))) != self._token:
            raise _Closed(CloseCode.AUTHENTICATION_FAILED, "Authentication failed.")
        self._forget_the_dead()
        session = self._sessions.get(str(data.get("session_id")))
        seq = data.get("seq")
        if session is None or not isinstance(seq, int):
            outlet.put_nowait(frame(Op.INVALID_SESSION, False))
            return None
        if seq > session.seq:
            raise _Closed(CloseCode.INVALID_SEQ, "Invalid seq.")
        missed = session.missed_since(seq)
        if missed is None:
            del self._sessions[session.id]
            outlet.put_nowait(frame(Op.INVALID_SESSION, False))
            return None
        if session.outlet is not None:  # the old socket has not noticed yet that it is dead
            session.outlet.put_nowait(Farewell(CloseCode.UNKNOWN_ERROR))
        for text in missed:
            outlet.put_nowait(text)
        session.outlet, session.lost_at_s = outlet, None
        self.resumed += 1
        session.dispatch("RESUMED", {"_trace": []})
        return session

    def _leave(self, outlet: Outlet, code: int) -> None:
        for session in self._sessions_on(outlet):
            session.outlet, session.lost_at_s = None, self._clock_s()
            if code in (*_ENDED_BY_CLIENT, CloseCode.SESSION_TIMED_OUT):
                del self._sessions[session.id]

    def _sessions_on(self, outlet: Outlet) -> list[Session]:
        return [session for session in self._sessions.values() if session.outlet is outlet]

    def _forget_the_dead(self) -> None:
        oldest_s = self._clock_s() - self._switches.resume_window_s
        for session in list(self._sessions.values()):
            if session.lost_at_s is not None and session.lost_at_s < oldest_s:
                del self._sessions[session.id]

    def _send_members(self, session: Session, data: Json) -> None:
        guild = self._world.guilds.get(int(data.get("guild_id", 0)))
        if guild is None:
            return
        wanted = {int(str(user_id)) for user_id in _listed(data.get("user_ids"))}
        prefix = str(data.get("query") or "").lower()
        found = [
            self._world.users[user_id]
            for user_id in guild.member_ids
            if (user_id in wanted if wanted else self._world.users[user_id].username.startswith(prefix))
        ]
        chunk: Json = {
            "guild_id": str(guild.id),
            "members": [shapes.member(self._world, guild, u) | {"user": shapes.user(u)} for u in found],
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [],
        }
        session.dispatch("GUILD_MEMBERS_CHUNK", chunk | ({"nonce": data["nonce"]} if "nonce" in data else {}))


async def _write(websocket: WebSocket, outlet: Outlet) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the other side was faster
        while True:
            item = await outlet.get()
            if isinstance(item, Farewell):
                await websocket.close(item.code, item.reason)
                return
            await websocket.send_text(item)


def gateway_url(connection: WebSocket) -> str:
    """The gateway at the address the client itself came to."""
    return f"ws://{connection.headers['host']}/gateway"


def _bare(token: str) -> str:
    return token.removeprefix("Bot ")


def _mapping(data: object) -> Json:
    if not isinstance(data, dict):
        raise _Closed(CloseCode.DECODE_ERROR, "Error while decoding payload.")
    return data


def _listed(value: object) -> Iterator[object]:
    """Discord takes one id or a list of them."""
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value
