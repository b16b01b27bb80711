"""Who a sub-agent is, from the operator's order to what its model reads: with real child processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from agent.prompts.library import PROMPTS
from agent.tools.registry import ToolRegistry
from agent.tools.tool import Tool
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.subagents import SubagentSettings, SubTypeSetting
from gateway.config.tools import ToolSettings, WebSettings
from gateway.contracts.profiles import BUILT_IN, CONVERSING, DELEGATING, TALKING
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.ops.admin.app import Parts, create_app
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.keepers import keeper_of
from tests.parts.sub_types import CATALOG
from tests.parts.waiting import until

TOKEN = "the-operator's-token"


class Delegating(ScriptedClient):
    """A model that hands every request on to a sub-agent of the type it names, and remembers what that was told. As a
    sub-agent it calls the tool `calls` for as long as it may."""

    def __init__(self, calls: RequestedCall | None = None) -> None:
        self.calls = calls
        self.children: list[ModelRequest] = []
        self.offered: set[str] = set()
        self.choice = ""
        self.types: list[str] = []
        self.results: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.SUBAGENT:
            self.children.append(request)
            if self.calls is not None and request.tools:
                yield self._answer(request, "", self.calls)
            else:
                yield TextDelta("done")
                yield self._answer(request, "done")
        elif request.purpose is UsagePurpose.TURN and _is_asked(request):
            self.offered = {spec.name for spec in request.tools}
            (choice,) = [spec for spec in request.tools if spec.name == "sub_agent"]
            self.choice, self.types = choice.description, choice.schema["properties"]["type"]["enum"]
            sub_type = request.messages[-1].text.split()[-1]
            order = json.dumps({"type": sub_type, "task": "look around"})
            yield self._answer(request, "", RequestedCall("c1", "sub_agent", order))
        else:
            if request.purpose is UsagePurpose.TURN:  # a title may be asked for after the answer
                self.results = [said.text for said in request.messages if said.role is Role.TOOL]
            async for event in super().stream(request):
                yield event

    def _answer(self, request: ModelRequest, text: str, *calls: RequestedCall) -> ModelAnswer:
        return ModelAnswer(text, calls, "tool_calls" if calls else "stop", TokenCount(10, 5), 0.0, request.model)

    @property
    def told(self) -> tuple[str, set[str]]:
        """What the newest sub-agent is told of itself, and the tools it is offered."""
        return self.children[-1].system, {spec.name for spec in self.children[-1].tools}


def _is_asked(request: ModelRequest) -> bool:
    """Whether a person has spoken last; a note on failures is none."""
    newest = request.messages[-1]
    return newest.role is Role.USER and not newest.text.startswith("<tool-failures>")


def operator(store: Store, bus: RedisBus) -> httpx.AsyncClient:
    parts = Parts(
        store=store,
        figures=bus.operator,
        lanes=bus.lanes,
        intake=bus.intake,
        deliveries=bus.deliveries,
        keeper=keeper_of(store, bus),
        vault=bus.vault,
        scrubber=Scrubber(),
        client_key="the-key-of-clients",
        clock=SystemClock(),
        channels=(),
        version="0.1.0",
        hosts=("admin",),
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(create_app(parts, TOKEN))
    return httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers)


async def test_what_no_sub_agent_has_are_tools_that_there_are(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path
) -> None:
    """A conversation has them; a generalist has the rest of what its conversation has."""
    model = Delegating()
    everything = ToolSettings(policy=("allow write", "allow execute", "allow network", "allow spend"))
    async with running_agent(bus, sqlite_store, model, tmp_path, tools=everything) as agent:
        await agent.ask("general")
    _, tools = model.told
    assert BUILT_IN >= model.offered >= {*CONVERSING, *DELEGATING, *TALKING}
    assert tools == model.offered - set(CONVERSING)


async def test_commands_and_types_of_files_of_the_workspace_work_as_ours_do(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path
) -> None:
    """A command says its text in the name of whoever wrote it, so the sub-agent has what that person may use; an edit
    counts without a new start."""
    (tmp_path / "workspace" / "agents").mkdir(parents=True)
    (tmp_path / "workspace" / "commands").mkdir()
    (tmp_path / "workspace" / "agents" / "translator.md").write_text(
        "---\ndescription: Translates.\ntools: [file_read, file_write]\n---\nYou translate.\n"
    )
    hand_over = tmp_path / "workspace" / "commands" / "hand_over.md"
    hand_over.write_text("---\ndescription: Hand a task over\n---\nGive this to $1\n")
    model = Delegating()
    tools = ToolSettings(policy=("deny write",))
    async with running_agent(bus, sqlite_store, model, tmp_path, tools=tools, admins=()) as agent:
        await agent.ask("/hand-over translator")
        told, offered = model.told
        assert "translator: Translates." in model.choice
        assert told.startswith("You translate.")
        assert offered == {"file_read"}
        hand_over.write_text("---\ndescription: Hand a task over\nrole: admin\n---\nGive this to $1\n")
        assert "I do not know /hand_over" in (await agent.ask("/hand_over translator"))
        assert "hand_over" not in (await agent.ask("/help"))
        hand_over.write_text("---\ndescription: Hand a task over\nargument: whom\n---\nGive this to $1\n")
        assert "/hand_over [whom]: Hand a task over" in (await agent.ask("/help"))
    assert len(model.children) == 1


READ_ONLY = {"explore", "general", "plan", "security", "architect", "reviewer"}
WRITERS = {"code", "ui", "writer", "devops"}


@pytest.mark.parametrize(
    ("policy", "engine", "offered"),
    [
        ((), "", READ_ONLY),
        (("allow write",), "", READ_ONLY | WRITERS),
        (("allow network for guest",), "", READ_ONLY),
        (("allow network",), "", READ_ONLY),
        (("allow network",), "ddgs", READ_ONLY | {"research"}),
        (("allow web_search",), "ddgs", READ_ONLY),
        (("ask write",), "", READ_ONLY | WRITERS),
    ],
)
async def test_a_type_is_offered_to_whom_has_the_tools_for_its_purpose(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path, policy: tuple[str, ...], engine: str, offered: set[str]
) -> None:
    """A member who may only read is offered nobody who writes, runs or searches; and a model that asks for one all the
    same gets a refusal that names those who can help."""
    model = Delegating()
    lines = (*policy, "deny execute", "deny db_query")
    tools = ToolSettings(policy=lines, web=WebSettings.model_validate({"engine": engine}))
    async with running_agent(bus, sqlite_store, model, tmp_path, tools=tools, admins=()) as agent:
        await agent.ask("debug")
        (refused,) = model.results
    types = {line.partition(":")[0].removeprefix("- ") for line in model.choice.splitlines() if line.startswith("- ")}
    assert types == set(model.types) == offered
    assert not model.children
    assert "debug lacks the tools" in refused


async def test_a_child_is_told_what_its_type_says_and_has_no_more_tools_also_after_an_operators_change(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the policy allows. The change is made while the agent runs; nothing is started again."""
    monkeypatch.setattr("agent.subagents.catalog.SUB_TYPES_SEEN_WITHIN_S", 0.0)
    model = Delegating()
    everything = ToolSettings(policy=("allow write", "allow execute", "allow network", "allow spend"))
    async with (
        running_agent(bus, sqlite_store, model, tmp_path, tools=everything) as agent,
        operator(sqlite_store, bus) as admin,
    ):
        await agent.ask("explore")
        assert model.told == (CATALOG["explore"].prompt, set(CATALOG["explore"].tools or ()))
        order = {"prompt": "You wander.", "tools": ["file_list", "file_write"]}
        assert (await admin.put("/api/v1/agents/sub-types/explore", json=order)).status_code == 200
        await agent.ask("explore")
        assert model.told == (f"You wander.\n\n{PROMPTS.delegated}", {"file_list", "file_write"})
        await admin.delete("/api/v1/agents/sub-types/explore")
        await agent.ask("explore")
        assert model.told == (CATALOG["explore"].prompt, set(CATALOG["explore"].tools or ()))


async def test_a_model_is_offered_the_types_as_an_operator_describes_them_while_the_agent_runs(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none that was switched off."""
    monkeypatch.setattr("agent.subagents.catalog.SUB_TYPES_SEEN_WITHIN_S", 0.0)
    monkeypatch.setattr("agent.limits.SUB_TYPES_LOOK_EVERY_S", 0.01)
    model, offered_anew = Delegating(), list[object]()
    exchange = ToolRegistry.exchange

    def heard(registry: ToolRegistry, tools: Sequence[Tool]) -> None:
        offered_anew.append(tools)
        exchange(registry, tools)

    monkeypatch.setattr(ToolRegistry, "exchange", heard)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent, operator(sqlite_store, bus) as admin:
        await agent.ask("explore")
        assert f"- explore: {CATALOG['explore'].description}\n- general:" in model.choice
        for number, (name, order) in enumerate(
            {"explore": {"description": "Wanders about."}, "code": {"tools": list[str]()}}.items(), 1
        ):
            assert (await admin.put(f"/api/v1/agents/sub-types/{name}", json=order)).status_code == 200
            await until(lambda number=number: len(offered_anew) == number)  # type: ignore[misc]
        await agent.ask("explore")
        assert "- explore: Wanders about." in model.choice
        assert "- code:" not in model.choice


async def test_a_child_is_who_the_configuration_says(sqlite_store: Store, bus: RedisBus, tmp_path: Path) -> None:
    model = Delegating()
    wandering = SubTypeSetting(prompt="You wander.", tools=("file_list",))
    settings = SubagentSettings(types={"explore": wandering})
    async with running_agent(bus, sqlite_store, model, tmp_path, subagents=settings) as agent:
        await agent.ask("explore")
    assert model.told == (f"You wander.\n\n{PROMPTS.delegated}", {"file_list"})


async def test_rounds_end_where_the_type_says(sqlite_store: Store, bus: RedisBus, tmp_path: Path) -> None:
    """Then one more call without tools asks for a wrap-up."""
    model = Delegating(RequestedCall("l1", "file_list", "{}"))
    async with operator(sqlite_store, bus) as admin:
        await admin.put("/api/v1/agents/sub-types/explore", json={"rounds_max": 2})
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.ask("explore")
    assert [bool(request.tools) for request in model.children] == [True, True, False]
    assert model.children[-1].messages[-1].text == PROMPTS.wrap_up


async def test_a_tool_that_is_not_its_types_is_none_for_a_child_whoever_asks(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path
) -> None:
    """The user may write; a sub-agent that reads may not, though its model asks for it."""
    model = Delegating(RequestedCall("w1", "file_write", json.dumps({"path": "a.txt", "content": "x"})))

    def files() -> list[str]:
        return [path.name for path in tmp_path.rglob("*.txt")]

    writing = ToolSettings(policy=("allow write",))
    async with running_agent(bus, sqlite_store, model, tmp_path, tools=writing) as agent:
        await agent.ask("explore")
        results = [said for said in model.children[-1].messages if said.role is Role.TOOL]
        assert len(results) == CATALOG["explore"].rounds_max
        assert all("there is no tool 'file_write'" in result.text for result in results)
        assert files() == []
        await agent.ask("writer")
        assert files() == ["a.txt"]
