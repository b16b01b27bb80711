"""Puts the parts of an agent together, as the settings say: the same for the process and for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from platform import python_version, system

from agent.background import Background
from agent.commands.answering import answering_commands
from agent.commands.choices import choice_commands
from agent.commands.conversation import conversation_commands
from agent.commands.plan import plan_commands
from agent.commands.profiles import profile_commands
from agent.commands.remind import remind_commands
from agent.commands.table import CommandTable
from agent.commands.undoing import undo_command
from agent.compacting.ladder import Ladder
from agent.compactor import Compactor
from agent.control import ControlLane
from agent.deciding import Deciding
from agent.engine import Engine
from agent.engines.claude import ClaudeEngine, is_claude
from agent.firing import Bell, Firing
from agent.limits import LAST_WORDS_S, PLAN_ROUNDS_MAX
from agent.model.client import ModelClient
from agent.models import Models
from agent.people import People
from agent.planner import Planner, Planning, plan_tool
from agent.prompting.sections import RuntimeFacts
from agent.prompting.system import SkillLayers, SystemPrompts
from agent.room import Rooms
from agent.schedules.desk import Desk
from agent.steps import Steps
from agent.titler import Titler
from agent.tools.asking import AskingPeople
from agent.tools.memory import memory_tools
from agent.tools.registry import ToolRegistry
from agent.tools.schedule import schedule_tools
from agent.tools.skills import skill_tools
from agent.tools.todo import todo_tools
from agent.tools.toolbox import open_toolbox
from agent.turn import TurnTaker
from agent.worker import Worker
from gateway.bus.bus import RedisBus
from gateway.config import AccessDefault, QueueMode, Settings
from gateway.config.settings import Agent
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import ConfigError
from gateway.contracts.ports import Clock, Scrubber, Store
from gateway.limits import SHUTDOWN_GRACE_S
from gateway.store.foreign import Foreign


@asynccontextmanager
async def assembled(
    worker_id: str,
    settings: Settings,
    *,
    bus: RedisBus,
    store: Store,
    client: ModelClient,
    scrubber: Scrubber,
    clock: Clock,
    grace_s: float = SHUTDOWN_GRACE_S,
) -> AsyncIterator[Worker]:
    """A worker that is ready to run, as long as the block lasts. Raises `ConfigError`."""
    models = Models(client, settings)
    skills = SkillLayers(settings.data_dir, scrubber)
    compactor = Compactor(Ladder(client, models, store, scrubber, clock), store, clock)
    people = People(bus.access, settings.access.admins, is_open=settings.access.default is AccessDefault.OPEN)
    bell = Bell()
    later = settings.schedules
    desk = Desk(store.schedules, scrubber, clock, default_zone=later.time_zone, ring=bell.ring)
    firing = Firing(
        store.schedules, bus.intake, people, bell, scrubber, clock, has_heartbeat=later.heartbeat_minutes > 0
    )
    beside = Background()
    approvals = AskingPeople(
        bus.questions, bus.lanes, store, scrubber, clock, beside, ttl_s=settings.tools.approval_ttl_s
    )
    async with open_toolbox(
        settings.tools,
        data_dir=settings.data_dir,
        approvals=approvals,
        own=[
            *todo_tools(store, scrubber),
            *memory_tools(store, scrubber, clock),
            *skill_tools(skills.of),
            *schedule_tools(desk),
        ],
        databases=Foreign(settings.tools.database_urls),
        scrubber=scrubber,
        clock=clock,
    ) as tools:
        planner = Planner(
            Steps(client, tools, scrubber, clock, rounds_max=PLAN_ROUNDS_MAX, purpose=UsagePurpose.PLAN),
            models,
            store,
            scrubber,
            beside,
        )
        planning = Planning(planner, approvals, store, scrubber)
        tools.add([plan_tool(planning, scrubber)])
        facts = RuntimeFacts(version("trivet"), python_version(), system(), settings.channels.enabled_names)
        turns = TurnTaker(
            models=models,
            engine=_engine(settings.agent, client, tools, scrubber, clock),
            rooms=Rooms(compactor, models, tools, store),
            commands=CommandTable(
                (
                    *conversation_commands(store, compactor, bus.operator, scrubber),
                    *choice_commands(store, models),
                    undo_command(store),
                    *profile_commands(),
                    *remind_commands(desk, scrubber, clock, heartbeat_minutes=later.heartbeat_minutes),
                    *plan_commands(planning, scrubber),
                    *answering_commands(),
                )
            ),
            prompts=SystemPrompts(settings.data_dir, facts, tools.overview, skills, scrubber),
            people=people,
            store=store,
            scrubber=scrubber,
            clock=clock,
        )
        yield Worker(
            worker_id=worker_id,
            bus=bus.lanes,
            lanes=bus.operator,
            pulse=partial(bus.heartbeat, worker_id),
            store=store,
            turns=turns,
            titler=Titler(client, models, store, scrubber, clock),
            scrubber=scrubber,
            clock=clock,
            concurrency=settings.agent.concurrency,
            is_steered=settings.queue.mode is QueueMode.STEER,
            grace_s=grace_s,
            beside=(firing.run,),
        )
        await beside.finish(timeout_s=LAST_WORDS_S)


def control_lane(
    worker_id: str, settings: Settings, *, bus: RedisBus, store: Store, scrubber: Scrubber, clock: Clock
) -> ControlLane:
    """The control lane of that worker, on a bus and a store that may be its own."""
    people = People(bus.access, settings.access.admins)
    deciding = Deciding(bus.questions, bus.operator, people, scrubber, clock)
    return ControlLane(worker_id, bus.lanes, bus.operator, store, deciding, scrubber, clock)


def _engine(settings: Agent, client: ModelClient, tools: ToolRegistry, scrubber: Scrubber, clock: Clock) -> Engine:
    steps = Steps(client, tools, scrubber, clock, rounds_max=settings.tool_rounds_max)
    if settings.engine == "litellm":
        return steps
    if not is_claude(settings.model):
        raise ConfigError(
            f"agent.engine is claude_sdk, and agent.model is {settings.model}: choose a Claude model, such as "
            "anthropic/claude-sonnet-4-6, or the engine litellm"
        )
    return ClaudeEngine(
        client,
        tools,
        scrubber,
        clock,
        otherwise=steps,
        rounds_max=settings.tool_rounds_max,
        fallbacks=settings.fallback_models,
        api_key=settings.api_key.get_secret_value() if settings.api_key else "",
        api_base=settings.api_base,
    )
