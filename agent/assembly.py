"""Puts the parts of an agent together, as the settings say: the same for the process and for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from platform import python_version, system

from agent.commands.choices import choice_commands
from agent.commands.conversation import conversation_commands
from agent.commands.profiles import profile_commands
from agent.commands.table import CommandTable
from agent.commands.undoing import undo_command
from agent.compacting.ladder import Ladder
from agent.compactor import Compactor
from agent.engine import Engine
from agent.engines.claude import ClaudeEngine, is_claude
from agent.model.client import ModelClient
from agent.models import Models
from agent.people import People
from agent.prompting.sections import RuntimeFacts
from agent.prompting.system import SkillLayers, SystemPrompts
from agent.room import Rooms
from agent.steps import Steps
from agent.titler import Titler
from agent.tools.memory import memory_tools
from agent.tools.registry import ToolRegistry
from agent.tools.skills import skill_tools
from agent.tools.todo import todo_tools
from agent.tools.toolbox import open_toolbox
from agent.turn import TurnTaker
from agent.worker import Worker
from gateway.bus.bus import RedisBus
from gateway.config import QueueMode, Settings
from gateway.config.settings import Agent
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
    async with open_toolbox(
        settings.tools,
        data_dir=settings.data_dir,
        own=[*todo_tools(store, scrubber), *memory_tools(store, scrubber, clock), *skill_tools(skills.of)],
        databases=Foreign(settings.tools.database_urls),
        scrubber=scrubber,
        clock=clock,
    ) as tools:
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
                )
            ),
            prompts=SystemPrompts(settings.data_dir, facts, tools.overview, skills, scrubber),
            people=People(bus.access, settings.access.admins),
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
        )


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
