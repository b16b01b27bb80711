"""Assembles the parts of an agent as the settings say: the same for the process and for its tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import python_version, system
from typing import Final

from agent.engine import AfterTurn, Engine
from agent.features import sessions
from agent.features.access import AdminNotices, People, access_commands, showing_access
from agent.features.accounts import linking_commands, personal_data_commands
from agent.features.attachments.documents import Documents
from agent.features.attachments.inbox import Inbox
from agent.features.attachments.intake import AttachmentIntake, ImageDescriber, Receiving, Transcriber
from agent.features.commands import CommandRequest, CommandRow, CommandTable
from agent.features.memory.consolidation import Consolidation
from agent.features.memory.knowledge import ChargedEmbedder, MemoryCommands, PersonMemory, memory_tools
from agent.features.plans import Planning, plan_commands, plan_tool
from agent.features.plugins import plugin_commands, plugin_tools
from agent.features.schedules.service import Scheduler, ScheduleService, remind_commands, schedule_tools
from agent.features.titles import Titler
from agent.features.usage import Allowances, Meter, limits_command, queue_command, usage_commands
from agent.features.voice import Voice
from agent.model_clients import ModelClients, gallery_of, model_clients
from agent.models.catalog import ModelEndpoint
from agent.models.client import ModelClient
from agent.models.requests import Gallery
from agent.models.selection import Models, prices_of
from agent.prompts.skills import skill_tools
from agent.prompts.system import WORKSPACE, RuntimeFacts, SkillLayers, SystemPrompts
from agent.prompts.workspace import WorkspaceFiles
from agent.runtime.claude import ClaudeEngine, is_claude
from agent.runtime.commit import Commits, count_turn, look_for_ends, naming_people, trace_turn
from agent.runtime.compaction import Compactor, Summarizer
from agent.runtime.control import ApprovalDecisions, ButtonPresses, ControlService, answering_commands, run_in_own_loop
from agent.runtime.relay import FileServer, Relay
from agent.runtime.run import LaneRunner, RunPorts
from agent.runtime.steps import Steps
from agent.runtime.turn import HOOK_POINTS, ConversationRunner, TurnRunner
from agent.runtime.window import TurnWindows
from agent.runtime.worker import DeadLetters, Worker
from agent.subagents.orchestration import Delegation, open_subagents, write_plan
from agent.subagents.parent import ParentServices
from agent.subagents.runs import Delegate, SubagentStopper
from agent.subagents.status import StatusLines
from agent.subagents.tools import answers_of
from agent.subagents.wakes import SessionWaker
from agent.texts import PricesOf
from agent.tools.approvals import ChatApprovals
from agent.tools.files.quota import DiskLimits
from agent.tools.files.workspace import Workspaces
from agent.tools.registry import ToolRegistry
from agent.tools.secrets import SecretInjector
from agent.tools.todo import todo_tools
from agent.tools.toolbox import open_toolbox
from gateway.access import AccessService
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.config import QueueMode, Settings, auto_consolidate, database_url
from gateway.config.limits import DiskSettings
from gateway.config.settings import AgentSettings
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.contracts.ids import WORKSPACES
from gateway.contracts.ports import Clock, SpanSink
from gateway.limits import BUS_WAIT_S, QUEUE_NOTED_EVERY_S, SHUTDOWN_GRACE_S
from gateway.plugins import load_hooks
from gateway.process import end_loading, report_ready
from gateway.scrub import Scrubber
from gateway.scrub.vault import seal_of
from gateway.store import Store, open_store
from gateway.store.foreign import ForeignDatabases
from gateway.tasks import BackgroundTasks, RetryPolicy, Wakeup, alongside, retry_until_available
from gateway.telemetry.logs import send_lines
from gateway.telemetry.metrics import HOOK_FAILURES
from gateway.telemetry.spans import open_spans
from gateway.webhooks import WebhookEvents

# Tells whether the author of a command may have tasks split among sub-agents: only those read of it in /help.


_SPLIT: Final = frozenset({"sub_agent", "sub_agent_spawn", "orchestrate"})


def may_split(tools: ToolRegistry, asked: CommandRequest) -> bool:
    """Tell whether a turn of this person, in this place, is offered a tool that starts sub-agents."""
    return any(spec.name in _SPLIT for spec in tools.specs_for(asked.tool_context()))


@dataclass(eq=False, repr=False)
class AgentServices:
    """What every part of an agent process is made of, and the small parts. A part that must not wait for the others has
    a bus and a store of its own."""

    settings: Settings
    bus: RedisBus
    store: Store
    scrubber: Scrubber
    clock: Clock

    def build_control_lane(self, worker_id: str, prices_of: PricesOf) -> ControlService:
        """Build the control lane of that worker."""
        bus, store, scrubber, clock, people = self.bus, self.store, self.scrubber, self.clock, self.build_people()
        deciding = ApprovalDecisions(bus.questions, bus.lanes, store.tasks, people, scrubber, clock)
        pressing = ButtonPresses(store, bus.intake, people, scrubber, clock)
        access = self.build_access()
        return ControlService(worker_id, bus, store, deciding, pressing, access, scrubber, clock, prices_of=prices_of)

    def build_notices(self) -> AdminNotices:
        """Build the service that tells admins of strangers, and of models that do not answer."""
        bus, settings, events = self.bus, self.settings, WebhookEvents(self.settings.webhooks)
        return AdminNotices(
            bus.access, bus.deliveries, bus.operator, self.store, settings.access, self.scrubber, self.clock, events
        )

    def build_suggestions(self) -> sessions.SuggestionServer:
        """Build the service that answers requests for suggestions while people type."""
        own, people = WorkspaceFiles(self.settings.data_dir / WORKSPACE, self.scrubber), self.build_people()
        return sessions.SuggestionServer(self.bus.suggestions, self.store, people, own, self.settings, self.scrubber)

    def build_people(self) -> People:
        """Build the look-up of who may do what."""
        return People(self.bus.access, self.store.access, self.settings.access.policy, self.clock)

    def build_access(self) -> AccessService:
        """Build the service that decides about people and places, and shows the decisions to the bus."""
        bus, policy = self.bus, self.settings.access.policy
        return AccessService(self.store.access, bus.access, bus.deliveries, policy, self.scrubber.scrub, self.clock)


@asynccontextmanager
async def assembled(
    worker_id: str,
    services: AgentServices,
    clients: ModelClients,
    spans: SpanSink,
    *,
    grace_s: float = SHUTDOWN_GRACE_S,
) -> AsyncIterator[Worker]:
    """Assemble a worker that is ready to run, as long as the block lasts. Raises `ConfigError`."""
    bus, store, scrubber, clock = services.bus, services.store, services.scrubber, services.clock
    parts = _Parts(services.settings, bus, store, scrubber, clock, clients, spans)
    async with (
        aclosing(parts.meter),
        parts.catching_up(),
        parts.open_tools() as tools,
        parts.delegating(worker_id, tools) as delegation,
    ):
        planning = parts.planning(delegation.delegate)
        planners = () if delegation.is_off else (plan_tool(planning, scrubber),)
        tools.add((*delegation.tools, *planners), absent=delegation.absent)
        if clients.warm_up is not None:
            parts.background.start(clients.warm_up())
        yield Worker(
            worker_id=worker_id,
            bus=bus,
            answering=parts.answering(parts.turns(tools, planning)),
            dead_letters=DeadLetters(bus.lanes, bus.deliveries, store, scrubber, clock, parts.events),
            background=parts.background,
            concurrency=services.settings.agent.concurrency,
            grace_s=grace_s,
            loops=(
                parts.firing.serve,
                parts.waking.watch,
                partial(clients.client.health.report_forever, bus.operator),
                *delegation.loops,
            ),
            lasting=delegation.lasting,
        )
        await clients.client.health.report(bus.operator)


@dataclass(eq=False, repr=False)
class _Parts(AgentServices):
    """The things that several parts of one agent process share, and the builders of the larger parts."""

    clients: ModelClients
    spans: SpanSink

    def __post_init__(self) -> None:
        settings, bus, store, clients = self.settings, self.bus, self.store, self.clients
        scrubber, clock, spans = self.scrubber, self.clock, self.spans
        self.events = WebhookEvents(settings.webhooks)
        self._commits = Commits(scrubber, clock, self.events)
        self.people = self.build_people()
        self._allowances = Allowances(self.people, settings.limits)
        self.meter = Meter(store.spending, self._allowances, clock)
        self.client = replace(clients.client, gate=self.meter, spans=spans, clock=clock)
        self.models = Models(self.client, settings)
        self._voice = Voice(self.client, settings.agent.speech_model, settings.agent.speech_voice, clock)
        name = clients.embedding_model
        embedder = ChargedEmbedder(self.client, name, store, clock, clients.endpoint_of(name).model) if name else None
        self._memory = PersonMemory(store.memories, scrubber, clock, embedder=embedder)
        self._consolidation = Consolidation(
            self.client, self.models, self._memory, store, scrubber, clock, gathers=auto_consolidate(settings)
        )
        self._compactor = Compactor(
            Summarizer(self.client, self.models, store, scrubber, clock, tokens_max=settings.agent.summary_tokens_max),
            store,
            clock,
        )
        self._skills = SkillLayers(settings.data_dir, scrubber)
        self._own = WorkspaceFiles(settings.data_dir / WORKSPACE, scrubber)
        self._workspaces = Workspaces(settings.data_dir / WORKSPACES, disk=_disk_limits(settings.limits.disk))
        self.background = BackgroundTasks()
        self._approvals = ChatApprovals(
            bus.questions,
            bus.deliveries,
            store,
            scrubber,
            clock,
            self.background,
            ttl_s=settings.tools.approval_ttl_s,
            admins=settings.access.admins,
            events=self.events,
        )
        later, wakeup = settings.schedules, Wakeup()
        self._schedules = ScheduleService(
            store.schedules, scrubber, clock, default_zone=later.time_zone, ring=wakeup.ring
        )
        self.firing = Scheduler(
            store.schedules, bus.intake, self.people, wakeup, scrubber, clock, has_heartbeat=later.heartbeat_minutes > 0
        )
        self._ends = Wakeup()
        self._status = StatusLines(
            store, bus.deliveries, scrubber, clock, self.background, is_on=settings.subagents.status_lines
        )
        self.waking = SessionWaker(
            store, bus.intake, self.people, self._ends, scrubber, clock, ended=self._status.ended
        )

    def open_tools(self) -> AbstractAsyncContextManager[ToolRegistry]:
        """Open all tools that the model may use, except those that need sub-agents, which use these tools
        themselves."""
        remembers = self.settings.memory.enabled
        return open_toolbox(
            self.settings.tools,
            workspaces=self._workspaces,
            approvals=self._approvals,
            lender=self._lender(),
            own=[
                *todo_tools(self.store, self.scrubber),
                *(memory_tools(self._memory, self.store.memories, self.scrubber) if remembers else ()),
                *skill_tools(self._skills.of),
                *schedule_tools(self._schedules),
            ],
            plugins=plugin_tools(self.settings.plugins.enabled),
            databases=ForeignDatabases(self.settings.tools.database_urls),
            scrubber=self.scrubber,
            clock=self.clock,
            elsewhere=answers_of(self.store.tasks),
            spans=self.spans,
            skills_of=self._skills.folders,
        )

    def delegating(self, worker_id: str, tools: ToolRegistry) -> AbstractAsyncContextManager[Delegation]:
        """Open the sub-agents of this process. They use the same tools, each in a context of its own."""
        return open_subagents(
            worker_id,
            self.settings.subagents,
            ParentServices(self.client, tools, self.scrubber, self.clock),
            workspaces=self._workspaces,
            models=self.models,
            people=self.people,
            store=self.store,
            watch=self._status,
            spans=self.spans,
            ring=self._ends.ring,
            own_types=self._own.sub_types.read,
        )

    def planning(self, delegate: Delegate) -> Planning:
        """Build the planner, which is a sub-agent whose calls are charged as planning."""
        return Planning(partial(write_plan, delegate), self._approvals, self.store, self.scrubber, self.clock)

    def _attachment_intake(self) -> AttachmentIntake:
        """Build the intake of a turn's files."""
        settings, store, scrubber, clock = self.settings, self.store, self.scrubber, self.clock
        ears = eyes = None
        if self.client.transcriptions is not None and settings.agent.transcription_model:
            ears = Transcriber(self.client, settings.agent.transcription_model, store, scrubber, clock)
        if settings.agent.vision_model:
            eyes = ImageDescriber(self.client, settings.agent.vision_model, store, scrubber, clock)
        receiving = Receiving(
            Inbox(self.bus.files, self._workspaces, settings.attachments, scrubber, clock),
            Documents(hidden=[settings.data_dir, Path.home()]),
            self._workspaces,
            scrubber,
            timeout_s=settings.attachments.timeout_s,
            text_tokens_max=settings.attachments.text_tokens_max,
            ears=ears,
            eyes=eyes,
        )
        return AttachmentIntake(receiving, self.models, store)

    def answering(self, turns: TurnRunner) -> LaneRunner:
        """Build the runner that takes a claimed lane to a committed answer."""
        return LaneRunner(
            RunPorts(self.bus.lanes, self.bus.deliveries, self.store, self.people, self.scrubber, self.clock),
            turns=turns,
            commits=self._commits,
            titler=Titler(
                self.client,
                self.models,
                self.store,
                self.scrubber,
                self.clock,
                self.bus.deliveries.publish,
                is_for_all=self.settings.agent.titles,
            ),
            background=self.background,
            idle_hours=self.settings.session.idle_hours,
            is_steered=self.settings.queue.mode is QueueMode.STEER,
            afterwards=self._afterwards(),
        )

    def turns(self, tools: ToolRegistry, planning: Planning) -> TurnRunner:
        """Build the runner that takes the turns of this process."""
        settings = self.settings
        facts = RuntimeFacts(
            version("trivet"),
            python_version(),
            system(),
            settings.channels.enabled_names,
            settings.scrub.vault.enabled,
            settings.schedules.time_zone,
        )
        engine = _engine(
            settings.agent,
            self.client,
            self.clients.endpoint_of,
            tools,
            self.scrubber,
            self.clock,
            gallery_of(Workspaces(settings.data_dir / WORKSPACES)),
        )
        conversations = ConversationRunner(
            models=self.models,
            engine=engine,
            windows=TurnWindows(self._compactor, self.models, tools, self.store),
            prompts=SystemPrompts(settings.data_dir, facts, tools, self._skills, self._own, self.scrubber),
            people=self.people,
            attachments=self._attachment_intake(),
            memory=self._memory if settings.memory.enabled else None,
            scrubber=self.scrubber,
            clock=self.clock,
        )
        return TurnRunner(
            commands=CommandTable(
                self._commands(planning), self._own, self.scrubber, can_split=partial(may_split, tools)
            ),
            conversations=conversations,
            commits=self._commits,
            people=self.people,
            meter=self.meter,
            store=self.store,
            scrubber=self.scrubber,
            clock=self.clock,
            voice=self._voice,
            hooks=load_hooks(
                settings.plugins.enabled, HOOK_POINTS, partial(self.client.health.tally.add, HOOK_FAILURES)
            ),
        )

    def _commands(self, planning: Planning) -> tuple[CommandRow, ...]:
        """List the commands in the order of /help."""
        store, scrubber, settings = self.store, self.scrubber, self.settings
        minutes = self.settings.schedules.heartbeat_minutes
        ending = SubagentStopper(store.tasks, self.clock)
        keeper = self.build_access()
        return (
            *sessions.ConversationCommands(
                store,
                self._compactor,
                self.bus.lanes,
                scrubber,
                ending,
                self.clock,
                prices_of=partial(prices_of, self.client, settings),
                left=(self.bus.vault.drop,),
            ).rows(),
            *sessions.choice_commands(store, self.models, ending),
            *self._voice.commands(),
            sessions.undo_command(store, ending),
            *usage_commands(store.usage, self.meter, self.clock, partial(prices_of, self.client, settings)),
            *MemoryCommands(self._memory, store.memories, store.people, ending, (self.bus.vault.drop_all,)).rows(),
            *personal_data_commands(store.people, scrubber),
            *linking_commands(
                store.links, scrubber, self.clock, changed=keeper.project, tell=self.bus.deliveries.publish
            ),
            *sessions.profile_commands(self._own),
            *remind_commands(self._schedules, scrubber, self.clock, heartbeat_minutes=minutes),
            *plan_commands(planning, scrubber),
            *answering_commands(),
            *access_commands(keeper),
            limits_command(keeper, self._allowances, self.people, store.usage, self.meter, self.clock),
            queue_command(self.bus.operator),
            *plugin_commands(settings.plugins.enabled),
        )

    def catching_up(self) -> AbstractAsyncContextManager[None]:
        """Start what memory has to go through since the last process ended."""
        return alongside(self._consolidation.go_through(None)) if self.settings.memory.enabled else nullcontext()

    def _afterwards(self) -> tuple[AfterTurn, ...]:
        """List the steps that follow each turn, when its answer is on its way, one after the other: the longest come
        last."""
        return (
            partial(look_for_ends, self._ends.ring),
            partial(trace_turn, self.spans),
            partial(count_turn, self.client.health.tally),
            naming_people(self.bus.operator),
            *((self._memory.count_uses, self._consolidation.after) if self.settings.memory.enabled else ()),
        )

    def _lender(self) -> SecretInjector | None:
        if (seal := seal_of(self.settings)) is None:
            return None
        origins = frozenset(self.settings.scrub.vault.hosts)
        return SecretInjector(self.bus.vault, seal, self.store.secret_uses, self.clock, origins=origins)


def _engine(
    settings: AgentSettings,
    client: ModelClient,
    endpoint_of: Callable[[str], ModelEndpoint],
    tools: ToolRegistry,
    scrubber: Scrubber,
    clock: Clock,
    gallery: Gallery,
) -> Engine:
    steps = Steps(client, tools, scrubber, clock, rounds_max=settings.tool_rounds_max)
    if settings.engine == "litellm":
        return steps
    if not is_claude(endpoint_of(settings.model).model):
        raise ConfigError(
            f"agent.engine is claude_sdk, and agent.model is {settings.model}: choose a Claude model, such as "
            "anthropic/claude-sonnet-4-6, or the engine litellm"
        )
    for name in dict.fromkeys((settings.model, *settings.models, *settings.fallback_models)):
        if is_claude(endpoint_of(name).model) and endpoint_of(name).temperature is not None:
            raise ConfigError(
                f"models.{name}.temperature: agent.engine is claude_sdk, whose program takes none: take it out, or set "
                "agent.engine to litellm"
            )
    return ClaudeEngine(
        client,
        tools,
        scrubber,
        clock,
        otherwise=steps,
        gallery=gallery,
        rounds_max=settings.tool_rounds_max,
        endpoint_of=endpoint_of,
    )


def _disk_limits(disk: DiskSettings) -> DiskLimits:
    """Convert the limits to bytes."""
    return DiskLimits(*(number * 1024**2 for number in (disk.owner_mb, disk.all_mb, disk.free_mb)))


async def serve(settings: Settings, scrubber: Scrubber, stopping: asyncio.Event) -> None:
    """Answer messages until `stopping`."""
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        spans = stack.enter_context(open_spans(settings.telemetry, role="agent"))
        clients = model_clients(settings)
        stack.push_async_callback(clients.client.close)
        store = open_store(database_url(settings), clock)
        stack.push_async_callback(store.close)
        await store.check_schema()
        installation = await store.installation()
        bus = await retry_until_available(lambda: _open_bus(settings, installation), RetryPolicy(for_s=BUS_WAIT_S))
        stack.push_async_callback(bus.close)
        services = AgentServices(settings, bus, store, scrubber, clock)
        keeper = services.build_access()
        await keeper.project()
        worker_id = bus.names.named(f"{socket.gethostname()}:{os.getpid()}:{clock.code(6)}")
        worker = await stack.enter_async_context(assembled(worker_id, services, clients, spans))
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(
                    Relay(worker_id, bus.deliveries, store, clock, spans, clients.client.health.tally).relay_receipts()
                ),
                group.create_task(FileServer(bus.files, store).serve()),
                group.create_task(showing_access(keeper, bus.keep_named)),
                group.create_task(services.build_notices().watch()),
                group.create_task(note_queue(bus.operator)),
                group.create_task(send_lines(bus.operator)),
                group.create_task(
                    run_in_own_loop(partial(_serve_control, worker_id, settings, clients, scrubber, clock))
                ),
            ]
            end_loading()
            report_ready()
            await worker.serve(stopping)
            for task in loops:
                task.cancel()


async def note_queue(bus: Operator) -> None:
    """Record the length of the queue again and again for the operator's plots, until cancelled. While the bus is away,
    moments are missing."""
    while True:
        with contextlib.suppress(BusUnavailable):
            await bus.note_queue(await bus.figures())
        await asyncio.sleep(QUEUE_NOTED_EVERY_S)


async def _serve_control(
    worker_id: str, settings: Settings, clients: ModelClients, scrubber: Scrubber, clock: Clock
) -> None:
    """Serve the control lane and suggestions, with connections of their own: a busy or stuck event loop of the worker
    must not hold them up."""
    async with contextlib.AsyncExitStack() as stack:
        store = open_store(database_url(settings), clock)
        stack.push_async_callback(store.close)
        bus = await _open_bus(settings, await store.installation())
        stack.push_async_callback(bus.close)
        async with asyncio.TaskGroup() as group:
            services = AgentServices(settings, bus, store, scrubber, clock)
            lane = services.build_control_lane(worker_id, partial(prices_of, clients.client, settings))
            group.create_task(services.build_suggestions().serve())
            group.create_task(lane.serve())


async def _open_bus(settings: Settings, installation: str) -> RedisBus:
    return await open_bus(
        settings.redis.url or embedded_url(settings.data_dir),
        installation=installation,
        user_turns_max=settings.queue.user_turns_max,
        turns_max=settings.queue.turns_max,
        wait_replicas=settings.redis.wait_replicas,
    )
