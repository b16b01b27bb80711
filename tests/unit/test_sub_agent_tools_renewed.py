"""What the tools of sub-agents cost in every prompt, and when it changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

import pytest

from agent.subagents.catalog import Catalog, SubType
from agent.subagents.dispatcher import SubAgents
from agent.subagents.orchestration import orchestrate_tool
from agent.subagents.tools import CatalogFollower, DelegationTools, WaitTool
from agent.tokens import estimate_tokens
from agent.tools.tool import Tool
from gateway.clock import SystemClock
from gateway.contracts.errors import StoreUnavailable
from gateway.contracts.messages import CleanText
from gateway.contracts.profiles import BUILT_IN, DELEGATING
from gateway.scrub import Scrubber
from gateway.store.subagents import TaskStore
from tests.parts.strategies import Ensemble
from tests.parts.sub_types import CATALOG
from tests.parts.tooling import context, registry
from tests.parts.waiting import until

PROMPT_TOKENS_MAX: Final = 850
"""Of all five in every prompt of everybody who may delegate: a tenth of a small window. They were twice as much."""


def made(types: Mapping[str, SubType]) -> tuple[Tool, ...]:
    agents, book = cast(SubAgents, None), cast(TaskStore, None)  # nothing is called
    scrubber, clock = Scrubber(), SystemClock()
    delegating = DelegationTools(
        agents, book, scrubber, clock, limit_s=300.0, models=("demo/scripted",), usable=lambda _context: BUILT_IN
    )
    return (
        *delegating.tools(types),
        WaitTool(book, clock).tool(),
        orchestrate_tool(Ensemble(lambda _order: "").delegate, delegating.offered, scrubber, clock),
    )


class Rows:
    """A catalog whose rows a test changes."""

    def __init__(self, types: Mapping[str, SubType]) -> None:
        self.types = types
        self.is_away = False
        self.looks = 0

    async def current(self) -> Mapping[str, SubType]:
        self.looks += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return self.types


def test_the_tools_of_sub_agents_cost_a_prompt_no_more_than_they_may() -> None:
    tools = made(CATALOG)
    assert {tool.spec.name for tool in tools} == set(DELEGATING)
    told = [tool.spec.name + tool.spec.description + json.dumps(tool.spec.schema) for tool in tools]
    assert sum(map(estimate_tokens, told)) <= PROMPT_TOKENS_MAX


def test_the_types_stand_once_in_a_prompt_and_read_the_same_each_time() -> None:
    first, second = (registry(*made(CATALOG)).specs for _ in range(2))
    assert json.dumps([spec.schema for spec in first]) == json.dumps([spec.schema for spec in second])
    assert [spec.description for spec in first] == [spec.description for spec in second]
    assert sum(CATALOG["architect"].description in spec.description for spec in first) == 1


async def test_a_change_of_the_catalog_is_offered_while_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; a database that is away for a while changes nothing; a type without any tool is not offered."""
    monkeypatch.setattr("agent.limits.SUB_TYPES_LOOK_EVERY_S", 0.0)
    rows, tools = Rows(CATALOG), registry()
    following = CatalogFollower(cast(Catalog, rows), tools, made)
    tools.add(await following.tools())
    keeping = asyncio.create_task(following.keep())
    before = tools.specs_for(context())
    rows.is_away = True
    looks = rows.looks
    await until(lambda: rows.looks > looks + 2)
    assert tools.specs_for(context()) == before
    wanderer = replace(CATALOG["explore"], description=CleanText("Wanders about."))
    rows.types = {**CATALOG, "explore": wanderer, "code": replace(CATALOG["code"], tools=())}
    rows.is_away = False
    await until(lambda: tools.specs_for(context()) != before)
    keeping.cancel()
    (choice,) = (spec for spec in tools.specs_for(context()) if spec.name == "sub_agent")
    assert "- explore: Wanders about.\n- general:" in choice.description
    assert "- code:" not in choice.description
    assert "code" not in choice.schema["properties"]["type"]["enum"]
    assert [spec.name for spec in tools.specs_for(context())] == [spec.name for spec in before]


def test_only_what_is_there_can_be_exchanged() -> None:
    with pytest.raises(ValueError, match="that is there"):
        registry().exchange(made(CATALOG))
