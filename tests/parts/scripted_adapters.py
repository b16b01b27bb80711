"""Platforms that answer as a test says: each send with the next outcome of a script, then with success."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from channels.core.adapter import AnyChunk, InboundHandler, OutgoingFile, SendBudget
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText


@dataclass(frozen=True)
class Sent:
    """What a `ScriptedAdapter` was asked to send."""

    lane: str
    text: str
    send_id: str
    is_plain: bool


@dataclass
class ScriptedAdapter:
    """A platform that answers each send with the next outcome of its script, then with success."""

    script: list[Exception] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    hold_lanes: dict[str, asyncio.Event] = field(default_factory=dict)
    name: str = "test"
    account: str = "test:1"
    state: str = "connected"
    is_there: bool = True

    async def run(self, door: InboundHandler) -> None:
        await asyncio.Event().wait()

    async def until_ready(self) -> None:
        if not self.is_there:
            await asyncio.Event().wait()

    def chunks(self, text: CleanText) -> Sequence[AnyChunk]:
        return tuple(text.split("|"))

    def marked(self, chunk: AnyChunk, mark: CleanText) -> AnyChunk:
        return f"again: {chunk}"

    def budgets(self, address: ReplyAddress) -> Sequence[SendBudget]:
        return (SendBudget(address.lane, 1.0, 1), SendBudget("bot", 1.0, 1))

    async def send(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        if address.lane in self.hold_lanes:
            await self.hold_lanes[address.lane].wait()
        self.sent.append(Sent(address.lane, str(chunk), send_id, plain))
        if self.script:
            raise self.script.pop(0)
        return (f"m{len(self.sent)}",)


@dataclass
class FilingAdapter(ScriptedAdapter):
    """A platform that takes files, but those that it refuses first."""

    refusals: list[Exception] = field(default_factory=list)

    def file_chunk(self, file: OutgoingFile) -> AnyChunk:
        if self.refusals:
            raise self.refusals.pop(0)
        return f"{file.name}:{len(file.content)}"


@dataclass
class AskableAdapter(ScriptedAdapter):
    """A platform that can be asked what arrived."""

    arrived: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: list[Exception] = field(default_factory=list)

    async def find_sent(
        self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        self.asked.append(send_id)
        if self.away:
            raise self.away.pop(0)
        return self.arrived.get(send_id)


@dataclass
class EditableAdapter(ScriptedAdapter):
    """A platform that lets us edit, and cannot be asked. `shown` is what stands in each message."""

    shown: dict[str, str] = field(default_factory=dict)
    lost: str | None = None
    lose_next: int = 0
    searches: int = 0

    async def send(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        ids = await super().send(address, chunk, send_id=send_id, plain=plain)
        self.shown[ids[0]] = str(chunk)
        return ids

    def place_id(self, address: ReplyAddress) -> str:
        return f"{self.account}:{address.lane}"

    async def put_placeholder(self, address: ReplyAddress) -> str:
        (message_id,) = await self.send(address, "…", send_id="", plain=True)
        return message_id

    async def complete(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        if message_id not in self.shown:
            return False
        self.shown[message_id] = str(chunk)
        return True

    async def find_lost(
        self, address: ReplyAddress, chunk: AnyChunk, *, after: Collection[str], known: frozenset[str]
    ) -> str | None:
        self.searches += 1
        return None if self.lost in known else self.lost


@dataclass
class ButtonAdapter(ScriptedAdapter):
    """A platform with buttons. `shown` is what stands in each message; an amendment takes the next of `refusals`."""

    shown: dict[str, str] = field(default_factory=dict)
    refusals: list[Exception] = field(default_factory=list)

    async def send(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        ids = await super().send(address, chunk, send_id=send_id, plain=plain)
        self.shown[ids[0]] = str(chunk)
        return ids

    def offering(self, chunk: AnyChunk, choices: Sequence[Choice]) -> AnyChunk:
        return f"{chunk} [{'|'.join(choice.label for choice in choices)}]"

    async def amend(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        if self.refusals:
            raise self.refusals.pop(0)
        if message_id not in self.shown:
            return False
        self.shown[message_id] = str(chunk)
        return True
