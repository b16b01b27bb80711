"""An agent process's inside, in the test's own loop: real bus, real store, any model; the test is the channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

from agent.assembly import AgentServices, assembled
from agent.model_clients import ModelClients
from agent.models.catalog import ModelEndpoint
from agent.models.client import ModelClient, ModelHealth
from agent.models.requests import EmbeddingModel, ModelProvider, SpeechModel, TranscriptionModel
from agent.models.selection import prices_of
from agent.runtime.relay import FileServer, Relay
from agent.runtime.worker import Worker
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config import QueueMode, Settings
from gateway.config.access import AccessSettings
from gateway.config.features import (
    AttachmentSettings,
    MemorySettings,
    PluginSettings,
    RoutingSettings,
    ScheduleSettings,
    ScrubSettings,
    Webhook,
)
from gateway.config.limits import GlobalAllowance, GuestAllowance, LimitSettings
from gateway.config.settings import AgentSettings, QueueSettings, SessionSettings
from gateway.config.subagents import SubagentSettings
from gateway.config.tools import ToolSettings
from gateway.contracts.access import StrangerRule
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    CleanText,
    ControlKind,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    InboundMessage,
    Receipt,
    Reply,
    ReplyKind,
)
from gateway.contracts.ports import Admission, Amendment, Verdict
from gateway.contracts.sessions import EntryKind
from gateway.limits import SHUTDOWN_GRACE_S
from gateway.scrub import Scrubber
from gateway.scrub import Scrubber as SecretScrubber
from gateway.store import Store
from gateway.telemetry.spans import NoSpans
from tests.parts.meanings import MODEL
from tests.parts.waiting import PATIENCE_S

DEARER = LimitSettings(guest=GuestAllowance(usd=0, turns=0), pot=GlobalAllowance(usd=0))
"""Models of tests cost half a dollar a call, and people of tests talk more in a minute than a guest in a day."""
_numbers = count(1)


def message(text: str, key: str = "telegram:1", *, message_id: str = "", lane: str = "") -> InboundMessage:
    """A message as intake hands it to the bus; a new id each time unless one is given."""
    session_key = SessionKey.parse(key)
    number = next(_numbers)
    return InboundMessage(
        id=message_id or f"{session_key.channel}:bot:{lane or 'chat'}:{number}",
        key=session_key,
        address=ReplyAddress(session_key.platform, lane or str(session_key), "{}"),
        text=CleanText(text),
        author_id=session_key.user or "someone",
        author_name=CleanText("Someone"),
        is_private=session_key.is_private,
        sent_at_ms=1_000,
        received_at_ms=1_000,
        is_nameable=True,
    )


@dataclass(slots=True)
class AgentProcess:
    """One worker with everything around it, and the hand that writes to it."""

    worker_id: str
    worker: Worker
    bus: RedisBus
    store: Store
    clock: SystemClock
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    replies: list[Reply] = field(default_factory=list)
    statuses: list[Reply] = field(default_factory=list)
    """The quiet lines about sub-agents, which answer nothing."""
    titles: list[Reply] = field(default_factory=list)
    """What the places of conversations are called."""

    async def say(
        self, text: str, key: str = "telegram:1", *, message_id: str = "", lane: str = "", interrupts: bool = False
    ) -> Admission:
        """Write as the user of `key`."""
        said = message(text, key, message_id=message_id, lane=lane)
        return await self.bus.intake.enqueue(said, interrupts=interrupts)

    async def edit(self, message_id: str, text: str, key: str = "telegram:1") -> Amendment:
        """Change what was said."""
        return await self.bus.intake.amend(message(text, key, message_id=message_id))

    async def delete(self, message_id: str, key: str = "telegram:1") -> Amendment:
        """Take back what was said."""
        return await self.bus.intake.withdraw(SessionKey.parse(key), message_id)

    async def transcript(self, key: str = "telegram:1") -> list[str]:
        """Everything said in the current conversation, by anybody; not what the gateway noted for the model."""
        session = await self.store.sessions.current(SessionKey.parse(key))
        if session is None:
            return []
        entries = await self.store.transcript.page(session.id)
        return [entry.text for entry in entries if entry.kind is not EntryKind.NOTE]

    async def control(self, kind: ControlKind, key: str = "telegram:1") -> bool:
        """Send /stop, /status or /where past the queue."""
        said = replace(message(f"/{kind.value}", key), received_at_ms=self.clock.now_ms())
        return (await self.bus.intake.request_control(ControlRequest(kind, said))).verdict is Verdict.ACCEPTED

    async def say_to_control(self, text: str, key: str = "telegram:1") -> None:
        """Say a control command with something behind it."""
        kind = ControlKind(text.split()[0].removeprefix("/"))
        await self.bus.intake.request_control(ControlRequest(kind, message(text, key)))

    async def press(self, command: str, key: str = "telegram:1", *, message_id: str = "") -> CleanText | None:
        """Press the button that says `command`; what the one who pressed is told."""
        kind = ControlKind(command.split()[0].removeprefix("/"))
        said = message(command, key, message_id=message_id)
        await self.bus.intake.request_control(ControlRequest(kind, said, is_press=True))
        told = await self.bus.questions.told(said, wait_s=5)
        return None if told is None else told.text

    async def question(self, number: int = 1, channel: str = "telegram") -> Reply:
        """The question that is asked as the `number`th."""
        async with asyncio.timeout(PATIENCE_S):
            while len(asked := [reply for reply in self.replies if reply.kind is ReplyKind.QUESTION]) < number:
                await self.deliver(channel)
        return asked[number - 1]

    async def reap(self) -> None:
        """Let the bus forget the worker, as it would after a long pause; the next beat tells it."""
        await self.bus.lanes.drain(self.worker_id)

    async def heard(self, replies: int, channel: str = "telegram", *, within_s: float = PATIENCE_S) -> list[Reply]:
        """Deliver until `replies` have arrived on `channel`, as a channel would; all of them in order."""
        async with asyncio.timeout(within_s):
            while sum(reply.address.channel == channel for reply in self.replies) < replies:
                await self.deliver(channel)
        return [reply for reply in self.replies if reply.address.channel == channel]

    async def hear(self, channel: str = "telegram") -> None:
        """Deliver until cancelled."""
        while True:
            await self.deliver(channel)

    async def deliver(self, channel: str) -> None:
        """Take what there is, as a channel would; wait a moment where there is nothing."""
        for pending in await self.bus.deliveries.replies(channel, "test", count=100, wait_s=0.2):
            record = DeliveryRecord(
                pending.reply.id,
                DeliveryState.SENT,
                attempt=1,
                platform_ids=("1",),
                updated_at_ms=self.clock.now_ms(),
                published_at_ms=pending.reply.created_at_ms,
            )
            await self.bus.deliveries.finish(channel, pending.entry_id, Receipt(record, pending.reply.key, channel))
            asides = {ReplyKind.STATUS: self.statuses, ReplyKind.TITLE: self.titles}
            asides.get(pending.reply.kind, self.replies).append(pending.reply)

    async def ask(self, text: str, key: str = "telegram:1", *, within_s: float = PATIENCE_S) -> CleanText:
        """Say something and hear the next answer."""
        channel = SessionKey.parse(key).platform
        before = sum(reply.address.channel == channel for reply in self.replies)
        await self.say(text, key)
        return (await self.heard(before + 1, channel, within_s=within_s))[-1].text


@asynccontextmanager
async def running_agent(
    bus: RedisBus,
    store: Store,
    provider: ModelProvider,
    data_dir: Path,
    *,
    model: str = "demo/scripted",
    context_window: int = 0,
    context_budget: int = 0,
    idle_hours: int = 0,
    concurrency: int = 64,
    is_steered: bool = False,
    grace_s: float = SHUTDOWN_GRACE_S,
    scrubber: Scrubber | None = None,
    admins: tuple[SessionKey, ...] = (),
    access: AccessSettings | None = None,
    tools: ToolSettings | None = None,
    limits: LimitSettings | None = None,
    memory: MemorySettings | None = None,
    embeddings: EmbeddingModel | None = None,
    models: tuple[str, ...] = (),
    fallbacks: tuple[str, ...] = (),
    tool_rounds_max: int = 25,
    routing: RoutingSettings | None = None,
    schedules: ScheduleSettings | None = None,
    scrub: ScrubSettings | None = None,
    subagents: SubagentSettings | None = None,
    engine: Literal["litellm", "claude_sdk"] = "litellm",
    attachments: AttachmentSettings | None = None,
    webhooks: tuple[Webhook, ...] = (),
    plugins: tuple[str, ...] = (),
    transcriptions: TranscriptionModel | None = None,
    speech: SpeechModel | None = None,
    vision_model: str = "",
    utility_model: str = "",
    api_base: str = "",
    health: ModelHealth | None = None,
    tweak: Callable[[AgentProcess], None] | None = None,
) -> AsyncIterator[AgentProcess]:
    """A running agent; on leaving it finishes its turns and gives its lanes back."""
    clock = SystemClock()
    scrubber = scrubber or SecretScrubber()
    settings = Settings(
        data_dir=data_dir,
        agent=AgentSettings(
            model=model,
            utility_model=utility_model or model,
            models=models,
            fallback_models=fallbacks,
            embedding_model=MODEL if embeddings else "",
            transcription_model="openai/whisper-1" if transcriptions else "",
            speech_model="openai/tts-1" if speech else "",
            vision_model=vision_model,
            tool_rounds_max=tool_rounds_max,
            engine=engine,
            api_base=api_base,
            context_window=context_window or None,
            context_budget=context_budget,
            concurrency=concurrency,
        ),
        routing=routing or RoutingSettings(),
        session=SessionSettings(idle_hours=idle_hours),
        queue=QueueSettings(mode=QueueMode.STEER if is_steered else QueueMode.COLLECT),
        access=access or AccessSettings(admins=admins, default=StrangerRule.OPEN),
        tools=tools or ToolSettings(),
        limits=limits or DEARER,
        memory=memory or MemorySettings(),
        schedules=schedules or ScheduleSettings(),
        scrub=scrub or ScrubSettings(),
        subagents=subagents or SubagentSettings(),
        attachments=attachments or AttachmentSettings(),
        webhooks=webhooks,
        plugins=PluginSettings(enabled=plugins),
    )
    worker_id, health = f"test:{clock.code(8)}", health or ModelHealth()
    services = AgentServices(settings, bus, store, scrubber, clock)
    client = ModelClient(
        provider,
        embeddings=embeddings,
        transcriptions=transcriptions,
        speech=speech,
        fallbacks=fallbacks,
        health=health,
    )
    endpoint_of = partial(ModelEndpoint, api_base=api_base)
    clients = ModelClients(client, endpoint_of, embedding_model=MODEL if embeddings else "")
    async with assembled(worker_id, services, clients, NoSpans(), grace_s=grace_s) as worker:
        process = AgentProcess(worker_id, worker, bus, store, clock)
        if tweak is not None:
            tweak(process)
        beside = [
            asyncio.create_task(
                Relay(worker_id, bus.deliveries, store, clock, NoSpans(), health.tally).relay_receipts()
            ),
            asyncio.create_task(FileServer(bus.files, store).serve()),
            asyncio.create_task(services.build_control_lane(worker_id, partial(prices_of, provider, settings)).serve()),
            asyncio.create_task(services.build_notices().watch()),
            asyncio.create_task(services.build_suggestions().serve()),
        ]
        working = asyncio.create_task(worker.serve(process.stopping))
        try:
            yield process
        finally:
            process.stopping.set()
            await working
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
