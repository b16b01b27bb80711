"""/model, /resume and the cost router, as people meet them. On a real bus and real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.requests import ModelEvent, ModelFacts, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.config.features import MemorySettings, RoutingSettings
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import EntryKind, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until

ADMIN = SessionKey.parse("telegram:9")
PLAIN, QUICK, SLOW = "demo/scripted", "demo/scripted@1ms", "demo/scripted@2ms"
UNLISTED = "demo/scripted@3ms"
SIBLINGS = {"anthropic/claude-sonnet-4-6": "anthropic/claude-haiku-5-5"}


class Models(Mind):
    """The demo model under several names; one of them reads little."""

    def __init__(self) -> None:
        super().__init__()
        self.windows = {QUICK: 3_000}

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(provider="demo/", context_window=self.windows.get(model, 32_768), output_max=500)

    @property
    def used(self) -> str:
        """The model of the last turn."""
        return self.asked[-1].model


@pytest.fixture
def mind() -> Models:
    return Models()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Models) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path, models=(QUICK, SLOW), admins=(ADMIN,)) as process:
        yield process


async def test_a_conversation_keeps_the_model_that_was_chosen_for_it(agent: AgentProcess, mind: Models) -> None:
    """Until it is taken back; the next conversation begins with the configured one."""
    assert f"`{SLOW}` from now on" in await agent.ask(f"/model {SLOW}")
    await agent.ask("say one")
    assert mind.used == SLOW
    await agent.ask("/new")
    await agent.ask("say two")
    assert mind.used == PLAIN
    await agent.ask("/resume 1")
    await agent.ask("say three")
    assert mind.used == SLOW
    await agent.ask("/model default")
    await agent.ask("say four")
    assert mind.used == PLAIN


async def test_model_alone_shows_what_is_used_and_what_may_be_chosen(agent: AgentProcess) -> None:
    shown = await agent.ask("/model")
    assert f"uses `{PLAIN}`, the default" in shown
    assert all(f"- `{name}`" in shown for name in (PLAIN, QUICK, SLOW))
    await agent.ask(f"/model {SLOW}")
    assert f"uses `{SLOW}`. You may" in await agent.ask("/model")


async def test_a_model_that_is_not_on_the_list_is_for_admins(agent: AgentProcess, mind: Models) -> None:
    """A guest cannot spend the operator's money on whatever has a name; an admin can, if it can be called."""
    refused = await agent.ask(f"/model {UNLISTED}")
    assert refused.startswith("Only an admin may choose that model. You may choose:")
    assert f"- `{QUICK}`" in refused
    assert f"`{UNLISTED}` from now on" in await agent.ask(f"/model {UNLISTED}", key=str(ADMIN))
    await agent.ask("say one", key=str(ADMIN))
    assert mind.used == UNLISTED
    await agent.ask("say two")
    assert mind.used == PLAIN


async def test_a_model_that_there_is_none_of_is_not_taken_for_a_forbidden_one(agent: AgentProcess) -> None:
    """Neither by an admin, who is told what else he may name, nor by anybody else."""
    for key in ("telegram:1", str(ADMIN)):
        told = await agent.ask("/model nope", key=key)
        assert told.startswith("I know no model of that name. You may choose:")
        assert all(f"- `{name}`" in told for name in (PLAIN, QUICK, SLOW))
        assert ("any other model by its name" in told) == (key == str(ADMIN))


async def test_the_budget_follows_the_model(agent: AgentProcess, mind: Models) -> None:
    """What the large model reads is condensed for the small one, and only for it."""
    for _ in range(3):
        await agent.ask("long 2500")
    await agent.ask("/model " + QUICK)
    await agent.ask("say small")
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    kinds = [entry.kind for entry in await agent.store.transcript.page(session.id)]
    assert kinds.count(EntryKind.COMPACTION) == 1


async def test_a_resumed_conversation_goes_on_and_only_ones_own(agent: AgentProcess, mind: Models) -> None:
    """Numbers are those of /sessions; another's conversations do not exist."""
    await agent.ask("say of apples")
    await agent.ask("/new")
    await agent.ask("say of pears")
    listed = await agent.ask("/sessions")
    assert "**2.** " in listed.splitlines()[2]
    assert listed.splitlines()[2].endswith("(current)")
    assert "conversation 1" in await agent.ask("/resume 1")
    assert (await agent.ask("/sessions")).splitlines()[3].endswith("(current)")
    await agent.ask("history")
    assert mind.heard() == ["say of apples", "history"]
    assert "already" in await agent.ask("/resume 1")
    for nonsense in ("/resume", "/resume two", "/resume -1", "/resume ²"):
        assert "Write /resume and the number" in await agent.ask(nonsense)
    for number in ("7", "0", "9" * 30, "9" * 5_000):
        assert "You have no conversation" in await agent.ask(f"/resume {number}")
    assert "You have no conversation 2" in await agent.ask("/resume 2", key="telegram:2")
    assert "apples" not in await agent.ask("/sessions", key="telegram:2")


async def test_messages_are_routed_by_how_hard_they_look(
    bus: RedisBus, store: Store, tmp_path: Path, mind: Models
) -> None:
    """A session's own model always wins; an empty tier is the default. A model with a small window reads no prompt that
    the tools of sub-agents stand in."""
    routing, few_tools = RoutingSettings(enabled=True, low=QUICK, high=SLOW), SubagentSettings(enabled=False)
    async with running_agent(bus, store, mind, tmp_path, routing=routing, subagents=few_tools) as agent:
        await agent.ask("thanks")
        assert mind.used == QUICK
        await agent.ask("Refactor the payment module")
        assert mind.used == SLOW
        await agent.ask("delete all my notes")
        assert mind.used == PLAIN
        assert f"- `{QUICK}`" in await agent.ask("/model")
        await agent.ask("/model " + SLOW)
        await agent.ask("thanks")
        assert mind.used == SLOW


async def test_thanks_do_not_cost_a_long_conversation_its_memory(
    bus: RedisBus, store: Store, tmp_path: Path, mind: Models
) -> None:
    """A routed model that could not read it all is passed over."""
    async with running_agent(bus, store, mind, tmp_path, routing=RoutingSettings(enabled=True, low=QUICK)) as agent:
        for _ in range(3):
            await agent.ask("long 2500")
        await agent.ask("thanks")
        assert mind.used == PLAIN
        assert len(mind.heard()) == 4


async def test_small_work_is_done_by_the_provider_of_the_conversation(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """A title is made by the cheap sibling of the model that was chosen, not of the configured one."""
    titled: list[str] = []

    class Titling(Models):
        def check_name(self, model: str) -> None:
            """Every name."""

        def facts(self, model: str) -> ModelFacts:
            return replace(super().facts(model), provider=model.split("/")[0], cheap_sibling=SIBLINGS.get(model, ""))

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            if request.purpose is UsagePurpose.TITLE:
                titled.append(request.model)
            request = ModelRequest(PLAIN, request.purpose, request.key, request.system, request.messages)
            async for event in super().stream(request):
                yield event

    chosen = "anthropic/claude-sonnet-4-6"
    async with running_agent(bus, store, Titling(), tmp_path, models=(chosen,)) as agent:
        await agent.ask(f"/model {chosen}")
        await agent.ask("say hello")
    assert titled == [SIBLINGS[chosen]]


class WithoutQuick(Models):
    """A provider that does not sell the cheap model to this key."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.model == QUICK:
            self.made.append(request)
            raise ModelRejected("no such model")
        async for event in super().stream(request):
            yield event


@pytest.mark.long
async def test_small_work_that_the_cheap_model_cannot_do_is_done_by_that_of_the_conversation(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """Its title, its summary, and what is gathered from it; charged as what it was."""
    mind, memory = WithoutQuick(), MemorySettings(auto_consolidate=True)
    small = (UsagePurpose.TITLE, UsagePurpose.COMPACTION, UsagePurpose.MEMORY)
    async with running_agent(bus, store, mind, tmp_path, models=(SLOW,), utility_model=QUICK, memory=memory) as agent:
        await agent.ask(f"/model {SLOW}")
        await agent.ask("plan a trip to Rome with two children")
        await agent.ask("/compact")
        await until(lambda: {request.purpose for request in mind.made} >= set(small))
        session = await store.sessions.current(SessionKey.parse("telegram:1"))
        assert session is not None
        view = await store.transcript.view(session.id)
    assert session.title == "Plan a trip to Rome with"
    assert view[0].kind is EntryKind.COMPACTION
    for purpose in small:
        assert [request.model for request in mind.made if request.purpose is purpose][:2] == [QUICK, SLOW]
