"""What an orchestration of three steps costs, by the price map and the tokens that an emulated provider counts."""

from __future__ import annotations

import json
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from channels.emulators.serving import LOOPBACK, listening
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings, SubTypeSetting
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import TaskState
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.providers.anthropic import WIRE
from tests.parts.providers.script import Answer, Body, Call, Usage
from tests.parts.providers.server import ProviderServer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

SONNET = "anthropic/claude-sonnet-4-6"
TYPES = ("explore", "architect", "reviewer")
ROUNDS = 3
CACHED_TOKENS_MIN = 1024
KEY = SessionKey.parse("telegram:1")


class Provider:
    """Answers as a turn that orchestrates, and as sub-agents that look around for some rounds. It counts four
    characters as a token, and caches what it is told to, as Anthropic does."""

    def __init__(self, *, caches: bool) -> None:
        self._caches = caches
        self._cache: list[str] = []
        self._ids = count()

    def answer(self, body: Body) -> Answer:
        prompt = [json.dumps(body.get("tools")), json.dumps(body["system"]), *map(json.dumps, body["messages"])]
        usage = self._usage("".join(prompt), len(prompt[0] + prompt[1]))
        rounds = sum(message["role"] == "assistant" for message in body["messages"])
        name, arguments = self._call(body, rounds)
        if not name:
            return Answer((f"It is in the third file. {'Well. ' * 60}",), usage=usage)
        return Answer(calls=(Call(name, (json.dumps(arguments),), f"call_{next(self._ids)}"),), usage=usage)

    def _call(self, body: Body, rounds: int) -> tuple[str, dict[str, Any]]:
        offered = {tool["name"] for tool in body.get("tools") or ()}
        if "orchestrate" in offered:
            steps = [{"type": name, "task": f"Look at part {name}. {'Mind the details. ' * 40}"} for name in TYPES]
            return (
                ("", {}) if rounds else ("orchestrate", {"strategy": "sequential", "goal": "Find it.", "steps": steps})
            )
        return ("file_list", {"path": "."}) if rounds < ROUNDS and "file_list" in offered else ("", {})

    def _usage(self, text: str, system_chars: int) -> Usage:
        prompt, marked = len(text) // 4, '"cache_control"' in text
        plain = text.replace(', "cache_control": {"type": "ephemeral"}', "")
        if not self._caches or not marked or len(plain) // 4 < CACHED_TOKENS_MIN:
            return Usage(prompt, 120)
        cached = max((len(known) for known in self._cache if plain.startswith(known)), default=0) // 4
        self._cache += [plain[:system_chars], plain]
        return Usage(len(plain) // 4, 120, cached=cached, written=len(plain) // 4 - cached)


async def carry_out(bus: RedisBus, store: Store, folder: Path, subagents: SubagentSettings, *, caches: bool) -> None:
    """Let a turn orchestrate its three steps."""
    provider = ProviderServer(WIRE, Provider(caches=caches).answer)
    async with listening(provider.app) as port:
        endpoint = partial(ModelEndpoint, api_base=f"http://{LOOPBACK}:{port}", api_key="key-of-the-test")
        client = LitellmClient(ModelCatalog(), lambda model: endpoint(model))
        async with running_agent(bus, store, client, folder, model=SONNET, subagents=subagents) as agent:
            assert "third file" in await agent.ask("find it", str(KEY), within_s=60)
            await agent.ask("/new", str(KEY))
        await client.close()


async def spent_usd(store: Store) -> float:
    """What all sub-agents so far have cost; each has come to its end."""
    tasks = await store.tasks.newest(limit=100)
    assert {task.state for task in tasks} <= {TaskState.COMPLETED}
    return sum(task.cost_usd for task in tasks)


@pytest.mark.long
async def test_three_steps_cost_a_tenth_with_a_cheap_model_and_marked_caches(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Each step reads on for some rounds."""
    sibling = ModelCatalog(today=date(2026, 11, 27)).facts(SONNET).cheap_sibling
    cheap = {name: SubTypeSetting(model=sibling) for name in TYPES}
    spent = dict[str, float]()
    for name, types, caches in (
        ("the conversation's model, nothing cached", {}, False),
        ("the conversation's model, cached", {}, True),
        ("the cheap model, nothing cached", cheap, False),
        ("the cheap model, cached", cheap, True),
    ):
        before = await spent_usd(sqlite_store)
        await carry_out(bus, sqlite_store, tmp_path, SubagentSettings(types=types), caches=caches)
        spent[name] = await spent_usd(sqlite_store) - before
    print("\n".join(f"{usd:.5f} USD with {name}" for name, usd in spent.items()))
    whole, cached, *_, least = spent.values()
    assert cached < whole
    assert least < whole / 10
