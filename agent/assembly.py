"""Puts the parts of an agent together, as the settings say: the same for the process and for its tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from platform import python_version, system

from agent.cache import AnswerCache, CachedEngine
from agent.commands.choices import choice_commands
from agent.commands.conversation import conversation_commands
from agent.commands.memory import memory_commands
from agent.commands.profiles import profile_commands
from agent.commands.table import CommandTable
from agent.commands.usage import usage_commands
from agent.compactor import Compactor
from agent.consolidation import Consolidation
from agent.embedder import ChargedEmbedder
from agent.engine import Engine
from agent.keeping import keeping_answers
from agent.memory import Memory
from agent.metering import Meter
from agent.model.client import ModelClient
from agent.model.embedding import EmbeddingModel
from agent.model.metered import MeteredClient
from agent.models import Models
from agent.people import People
from agent.prompting.sections import RuntimeFacts
from agent.prompting.system import SkillLayers, SystemPrompts
from agent.steps import Steps
from agent.titler import Titler
from agent.tools.memory import memory_tools
from agent.tools.skills import skill_tools
from agent.tools.todo import todo_tools
from agent.tools.toolbox import open_toolbox
from agent.turn import TurnTaker
from agent.worker import Worker
from gateway.bus.bus import RedisBus
from gateway.config import QueueMode, Settings, auto_consolidate
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
    embeddings: EmbeddingModel | None = None,
    scrubber: Scrubber,
    clock: Clock,
    grace_s: float = SHUTDOWN_GRACE_S,
) -> AsyncIterator[Worker]:
    """A worker that is ready to run, as long as the block lasts. Raises `ConfigError`."""
    people = People(bus.access, settings.access.admins)
    meter = Meter(store.spending, settings.limits, people.role_of, clock)
    client = MeteredClient(client, meter)
    models = Models(client, settings)
    embedder = ChargedEmbedder(embeddings, settings.agent.embedding_model, store, clock) if embeddings else None
    memory = Memory(store.memories, scrubber, clock, embedder=embedder)
    is_on = settings.memory.enabled
    consolidation = Consolidation(client, models, memory, store, scrubber, clock, gathers=auto_consolidate(settings))
    catching_up = consolidation.catching_up() if is_on else contextlib.nullcontext()
    compactor = Compactor(client, models, store, scrubber, clock)
    skills = SkillLayers(settings.data_dir, scrubber)
    async with (
        contextlib.aclosing(meter),
        catching_up,
        open_toolbox(
            settings.tools,
            data_dir=settings.data_dir,
            own=[
                *todo_tools(store, scrubber),
                *(memory_tools(memory, scrubber) if is_on else ()),
                *skill_tools(skills.of),
            ],
            databases=Foreign(settings.tools.database_urls),
            scrubber=scrubber,
            clock=clock,
        ) as tools,
    ):
        facts = RuntimeFacts(version("trivet"), python_version(), system(), settings.channels.enabled_names)
        cache = AnswerCache(store.answers, clock, ttl_s=settings.cache.ttl_s, embedder=embedder)
        engine: Engine = Steps(client, tools, scrubber, clock, rounds_max=settings.agent.tool_rounds_max)
        if settings.cache.enabled:
            engine = CachedEngine(engine, cache, tools.specs_for, clock)
        turns = TurnTaker(
            models=models,
            engine=engine,
            compactor=compactor,
            commands=CommandTable(
                (
                    *conversation_commands(store, compactor, bus.operator, scrubber),
                    *choice_commands(store, models),
                    *profile_commands(),
                    *memory_commands(memory, store.memories),
                    *usage_commands(store.usage, meter, clock),
                )
            ),
            prompts=SystemPrompts(settings.data_dir, facts, tools.overview, skills, scrubber),
            people=people,
            meter=meter,
            memory=memory if is_on else None,
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
            afterwards=(
                *((consolidation.after,) if is_on else ()),
                *((keeping_answers(cache),) if settings.cache.enabled else ()),
            ),
        )
