"""Discord's gateway: a websocket per session, HELLO, IDENTIFY or RESUME, heartbeats, a replay of what was missed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from channels.emulators.discord import shapes
from channels.emulators.discord.view import as_said
from channels.emulators.discord.world import (
    Channel,
    DiscordState,
    DiscordSwitches,
    DiscordUser,
    MessageFlag,
    MessageObject,
)
from channels.emulators.serving import cut_of
from channels.emulators.stage import EventKind, Faults, Json, StageAudience, StageEvent

# --- sessions: what a bot asked to hear, what it has heard, what it can have repeated


REPLAY_MAX: Final = 5_000  # events kept for RESUME; a client that missed more starts anew


class Intent(IntFlag):
    GUILDS = 1
    GUILD_MESSAGES = 1 << 9
    DIRECT_MESSAGES = 1 << 12
    MESSAGE_CONTENT = 1 << 15
    ALWAYS = 0


INTENTS_KNOWN: Final = (1 << 27) - 1


class Op(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE = 3
    RESUME = 6
    RECONNECT = 7
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11


class CloseCode(IntEnum):
    UNKNOWN_ERROR = 4000
    UNKNOWN_OPCODE = 4001
    DECODE_ERROR = 4002
    NOT_AUTHENTICATED = 4003
    AUTHENTICATION_FAILED = 4004
    ALREADY_AUTHENTICATED = 4005
    INVALID_SEQ = 4007
    RATE_LIMITED = 4008
    SESSION_TIMED_OUT = 4009
    INVALID_SHARD = 4010
    INVALID_API_VERSION = 4012
    INVALID_INTENTS = 4013
    DISALLOWED_INTENTS = 4014


@dataclass(frozen=True, slots=True)
class CloseFrame:
    """The last item put on an outlet: close with this code."""

    code: int
    reason: str = ""


Outlet = asyncio.Queue[str | CloseFrame]


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """One dispatch before anybody's intents are looked at.

    `shape` makes the event's data; its argument says whether the reader may see all content."""

    name: str
    shape: Callable[[bool], Json]
    intent: Intent = Intent.ALWAYS
    guild_id: int | None = None


@dataclass(slots=True)
class GatewaySession:
    id: str
    intents: Intent
    shard: tuple[int, int] = (0, 1)
    seq: int = 0
    outlet: Outlet | None = None
    lost_at_s: float | None = None
    reads_everything: bool = True
    sent: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=REPLAY_MAX))

    def hears(self, event: GatewayEvent) -> bool:
        if event.intent and not self.intents & event.intent:
            return False
        index, count = self.shard
        # direct chats always live on the first shard
        return ((event.guild_id or 0) >> 22) % count == index

    def dispatch(self, name: str, data: Json) -> None:
        """Number the event, keep it for a RESUME, and send it if somebody listens."""
        self.seq += 1
        frame = json.dumps({"op": Op.DISPATCH, "t": name, "s": self.seq, "d": data})
        self.sent.append((self.seq, frame))
        if self.outlet is not None:
            self.outlet.put_nowait(frame)

    def missed_since(self, seq: int) -> list[str] | None:
        """Return the frames after `seq`, or None when some of them are gone."""
        if self.sent and self.sent[0][0] > seq + 1:
            return None
        return [frame for number, frame in self.sent if number > seq]


def frame(op: Op, data: object = None) -> str:
    return json.dumps({"op": op, "d": data, "s": None, "t": None})


# --- the websockets


FRAME_BYTES_MAX: Final = 4096
FRAMES_PER_MINUTE_MAX: Final = 120
_PRIVILEGED: Final = Intent.MESSAGE_CONTENT
_ENDED_BY_CLIENT: Final = (1000, 1001)  # these close codes end a session at once; every other leaves it resumable


class _Closed(Exception):
    """Our side ends the connection with this frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.frame = CloseFrame(code, reason)


@dataclass(slots=True)
class Gateway:
    """All sessions of the bot. `clock_s` gives seconds; only differences of it are used."""

    world: DiscordState
    token: str
    application_id: int
    switches: DiscordSwitches
    faults: Faults
    clock_s: Callable[[], float]
    _sessions: dict[str, GatewaySession] = field(default_factory=dict)
    _lines: dict[Outlet, Callable[[], None]] = field(default_factory=dict)
    identified: int = 0
    resumed: int = 0
    opened: int = 0

    @property
    def is_connected(self) -> bool:
        return any(session.outlet is not None for session in self._sessions.values())

    def dispatch(self, event: GatewayEvent) -> None:
        """Send the event to every session that asked for it and can still hear of it, now or after a RESUME."""
        self._forget_the_dead()
        for session in self._sessions.values():
            if session.hears(event):
                session.dispatch(event.name, event.shape(session.reads_everything))

    # --- what a test or a fault may do to all connections

    def cut(self) -> None:
        """Cut every connection as a network fault would: no close frame."""
        for abort in list(self._lines.values()):
            abort()

    def close(self, code: int) -> None:
        self._say_to_all(CloseFrame(code))

    def ask_to_reconnect(self) -> None:
        """Send op 7, as before a restart of Discord's servers."""
        self._say_to_all(frame(Op.RECONNECT))

    def invalidate(self, *, resumable: bool) -> None:
        """Send op 9. Not resumable: the sessions are gone, and with them what they had not heard."""
        self._say_to_all(frame(Op.INVALID_SESSION, resumable))
        if not resumable:
            self._sessions.clear()

    def _say_to_all(self, item: str | CloseFrame) -> None:
        for outlet in self._lines:
            outlet.put_nowait(item)

    # --- the connection

    async def connection(self, websocket: WebSocket) -> None:
        """Serve one websocket until either side ends it."""
        self.opened += 1
        if self.switches.take("refuses_sockets"):
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
            outlet.put_nowait(closed.frame)
            code = closed.frame.code
            await writer
        except WebSocketDisconnect as gone:
            code = gone.code
        finally:
            writer.cancel()
            del self._lines[outlet]
            for session in [session for session in self._sessions.values() if session.outlet is outlet]:
                session.outlet, session.lost_at_s = None, self.clock_s()
                if code in (*_ENDED_BY_CLIENT, CloseCode.SESSION_TIMED_OUT):
                    del self._sessions[session.id]

    async def _converse(self, websocket: WebSocket, outlet: Outlet) -> None:
        if websocket.query_params.get("v", "10") not in ("9", "10"):
            raise _Closed(CloseCode.INVALID_API_VERSION, "Invalid API version.")
        outlet.put_nowait(frame(Op.HELLO, {"heartbeat_interval": self.switches.heartbeat_ms, "_trace": []}))
        if self.switches.take("drops_after_hello"):
            raise _Closed(CloseCode.UNKNOWN_ERROR, "Unknown error.")
        session: GatewaySession | None = None
        recent: deque[float] = deque()
        while True:
            message = await self._receive(websocket)
            now_s = self.clock_s()
            recent.append(now_s)
            while recent[0] < now_s - 60:
                recent.popleft()
            if len(recent) > FRAMES_PER_MINUTE_MAX:
                raise _Closed(CloseCode.RATE_LIMITED, "You are being rate limited.")
            op, data = message.get("op"), message.get("d")
            if op == Op.HEARTBEAT:
                outlet.put_nowait(frame(Op.HEARTBEAT_ACK))
            elif op == Op.IDENTIFY:
                if session is not None:
                    raise _Closed(CloseCode.ALREADY_AUTHENTICATED, "Already authenticated.")
                session = self._identify(websocket, outlet, _mapping(data))
            elif op == Op.RESUME:
                session = self._resume(outlet, _mapping(data))
            elif session is None:
                raise _Closed(CloseCode.NOT_AUTHENTICATED, "Not authenticated.")
            elif op != Op.PRESENCE:
                raise _Closed(CloseCode.UNKNOWN_OPCODE, "Unknown opcode.")

    async def _receive(self, websocket: WebSocket) -> Json:
        patience_s = self.switches.heartbeat_ms / 1000 * 2
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

    # --- beginning and taking up again

    def _identify(self, websocket: WebSocket, outlet: Outlet, data: Json) -> GatewaySession:
        if _bare(str(data.get("token", ""))) != self.token:
            raise _Closed(CloseCode.AUTHENTICATION_FAILED, "Authentication failed.")
        bits = data.get("intents")
        if not isinstance(bits, int) or not 0 <= bits <= INTENTS_KNOWN:
            raise _Closed(CloseCode.INVALID_INTENTS, "Invalid intent(s).")
        if bits & _PRIVILEGED and not self.switches.has_message_content:
            raise _Closed(CloseCode.DISALLOWED_INTENTS, "Disallowed intent(s).")
        intents = Intent(bits)
        index, count = data.get("shard") or (0, 1)
        if not 0 <= index < count:
            raise _Closed(CloseCode.INVALID_SHARD, "Invalid shard.")
        self.switches.sessions_left -= 1
        self.identified += 1
        session = GatewaySession(
            secrets.token_hex(16),
            intents,
            (index, count),
            outlet=outlet,
            reads_everything=bool(intents & Intent.MESSAGE_CONTENT),
        )
        self._sessions[session.id] = session
        guilds = [g for g in self.world.guilds.values() if (g.id >> 22) % count == index]
        ready: Json = {
            "v": 10,
            "user": shapes.own_user(self.world),
            "guilds": [{"id": str(g.id), "unavailable": True} for g in guilds],
            "private_channels": [],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": gateway_url(websocket),
            "application": {"id": str(self.application_id), "flags": 0},
            "_trace": [],
        }
        session.dispatch("READY", ready | ({"shard": [index, count]} if "shard" in data else {}))
        if intents & Intent.GUILDS:
            for guild in guilds:
                told = shapes.guild_create(self.world, guild)
                session.dispatch("GUILD_CREATE", told | ({"threads": []} if self.switches.hides_threads else {}))
        return session

    def _resume(self, outlet: Outlet, data: Json) -> GatewaySession | None:
        if _bare(str(data.get("token", ""))) != self.token:
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
            session.outlet.put_nowait(CloseFrame(CloseCode.UNKNOWN_ERROR))
        for text in missed:
            outlet.put_nowait(text)
        session.outlet, session.lost_at_s = outlet, None
        self.resumed += 1
        session.dispatch("RESUMED", {"_trace": []})
        return session

    def _forget_the_dead(self) -> None:
        oldest_s = self.clock_s() - self.switches.resume_window_s
        for session in list(self._sessions.values()):
            if session.lost_at_s is not None and session.lost_at_s < oldest_s:
                del self._sessions[session.id]


async def _write(websocket: WebSocket, outlet: Outlet) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the other side was faster
        while True:
            item = await outlet.get()
            if isinstance(item, CloseFrame):
                await websocket.close(item.code, item.reason)
                return
            await websocket.send_text(item)


def gateway_url(connection: WebSocket) -> str:
    """Return the gateway at the address the client itself came to."""
    return f"ws://{connection.headers['host']}/gateway"


def _bare(token: str) -> str:
    return token.removeprefix("Bot ")


def _mapping(data: object) -> Json:
    if not isinstance(data, dict):
        raise _Closed(CloseCode.DECODE_ERROR, "Error while decoding payload.")
    return data


# --- what changed, told once to both who may know: the bot's gateway and the people's pages


_LINK: Final = re.compile(r"https?://(\S+)")


@dataclass(slots=True)
class DiscordEvents:
    world: DiscordState
    gateway: Gateway
    audience: StageAudience
    switches: DiscordSwitches
    faults: Faults
    endpoint: Callable[[Json], None] | None = None

    # --- messages

    def said(self, message: MessageObject) -> None:
        """Send MESSAGE_CREATE, also to the author if it is the bot; the faults on inbound events apply to others."""
        is_inbound = message.author.id != self.world.bot.id
        if is_inbound and self.faults.take("poison"):
            self._to_bot(message, "MESSAGE_CREATE", only={"id", "channel_id", "content"})
        self._to_bot(message, "MESSAGE_CREATE")
        if is_inbound and self.faults.take("duplicate"):
            self._to_bot(message, "MESSAGE_CREATE")
        self._to_people(EventKind.SAID, message)
        self._unfurl(message)

    def changed(self, message: MessageObject) -> None:
        """Send MESSAGE_UPDATE with the whole message, for an edit as for a flag."""
        self._to_bot(message, "MESSAGE_UPDATE")
        self._to_people(EventKind.EDITED, message)
        self._unfurl(message)

    def filled(self, message: MessageObject) -> None:
        """Send MESSAGE_UPDATE to the bot; for people the message is there only now."""
        self._to_bot(message, "MESSAGE_UPDATE")
        self._to_people(EventKind.SAID, message)
        self._unfurl(message)

    def deleted(self, message: MessageObject) -> None:
        channel = self.world.channels[message.channel_id]
        data: Json = {"id": str(message.id), "channel_id": str(channel.id)} | _guild_of(channel)
        self._dispatch("MESSAGE_DELETE", data, channel, Intent.GUILD_MESSAGES, Intent.DIRECT_MESSAGES)
        self.audience.tell(StageEvent(EventKind.DELETED, str(channel.id), message_id=str(message.id)))

    def typing(self, channel: Channel, user: DiscordUser) -> None:
        """Show people that somebody types; no bot of ours asks to hear of it."""
        self.audience.tell(StageEvent(EventKind.TYPING, str(channel.id), status=f"{user.shown_as} is typing"))

    def _unfurl(self, message: MessageObject) -> None:
        """Show what a link leads to, in a new message and in one that gets other words."""
        link = _LINK.search(message.content)
        is_wanted = self.switches.sends_unfurls and not message.flags & MessageFlag.SUPPRESS_EMBEDS
        if link is not None and is_wanted and not message.embeds:
            message.embeds = [{"type": "link", "url": link.group(0), "title": link.group(1)}]
            self._to_bot(message, "MESSAGE_UPDATE")

    def _to_bot(self, message: MessageObject, name: str, *, only: set[str] | None = None) -> None:
        channel = self.world.channels[message.channel_id]

        def shape(reads_everything: bool) -> Json:
            data = shapes.message(self.world, message, reads_everything=reads_everything)
            data["channel_type"] = channel.kind.value
            if not message.flags & MessageFlag.EPHEMERAL:  # such a message names no guild
                data |= _guild_of(channel)
            if message.author.webhook_id is None:
                data |= self._member(channel, message.author)
            return data if only is None else {key: data[key] for key in only}

        if not self.faults.blocked:
            intent = Intent.DIRECT_MESSAGES if channel.is_dm else Intent.GUILD_MESSAGES
            self.gateway.dispatch(GatewayEvent(name, shape, intent, channel.guild_id))

    def _to_people(self, kind: EventKind, message: MessageObject) -> None:
        """Show people the message; one that is still to be filled is only a sign that the bot works."""
        if message.flags & MessageFlag.LOADING:
            status = f"{message.author.shown_as} is thinking"
            self.audience.tell(StageEvent(EventKind.TYPING, str(message.channel_id), status=status))
            return
        self.audience.tell(StageEvent(kind, str(message.channel_id), said=as_said(self.world, message)))

    # --- places

    def opened(self, channel: Channel) -> None:
        """Tell of a guild channel, or of a direct chat, of which the bot hears nothing."""
        if not channel.is_dm:
            self._dispatch("CHANNEL_CREATE", shapes.channel(self.world, channel), channel, Intent.GUILDS, Intent.ALWAYS)
        self.audience.tell(StageEvent(EventKind.PLACE, str(channel.id)))

    def thread_opened(self, thread: Channel) -> None:
        data = shapes.channel(self.world, thread) | {"newly_created": True}
        self._dispatch("THREAD_CREATE", data, thread, Intent.GUILDS, Intent.GUILDS)
        self.audience.tell(StageEvent(EventKind.PLACE, str(thread.id)))

    def thread_changed(self, thread: Channel) -> None:
        self._dispatch("THREAD_UPDATE", shapes.channel(self.world, thread), thread, Intent.GUILDS, Intent.GUILDS)
        self.audience.tell(StageEvent(EventKind.PLACE, str(thread.id)))

    def interacted(self, interaction: Json, channel: Channel) -> None:
        """Send INTERACTION_CREATE, which needs no intent; with an endpoint, the gateway tells of no interactions."""
        if self.endpoint is not None:
            self.endpoint(interaction)
            return
        for _ in range(2 if self.faults.take("duplicate") else 1):
            self._dispatch("INTERACTION_CREATE", interaction, channel, Intent.ALWAYS, Intent.ALWAYS)

    def failed(self, channel: Channel, user: DiscordUser, why: str) -> None:
        """Show why an interaction failed, to its own person only."""
        self.audience.tell(StageEvent(EventKind.TOAST, str(channel.id), status=why, person_id=str(user.id)))

    def _dispatch(self, name: str, data: Json, channel: Channel, in_guild: Intent, in_dm: Intent) -> None:
        if self.faults.blocked:
            return
        intent = in_dm if channel.is_dm else in_guild
        self.gateway.dispatch(GatewayEvent(name, lambda _: data, intent, channel.guild_id))

    def _member(self, channel: Channel, user: DiscordUser) -> Json:
        if channel.guild_id is None:
            return {}
        return {"member": shapes.member(self.world, self.world.guilds[channel.guild_id], user)}


def _guild_of(channel: Channel) -> Json:
    return {} if channel.guild_id is None else {"guild_id": str(channel.guild_id)}
