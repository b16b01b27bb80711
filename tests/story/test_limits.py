"""Daily limits, on a real bus and real databases: refused before a model is asked, told once, charged in full."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from sqlalchemy import Table, func, select
from structlog.testing import capture_logs

from agent.models.requests import ModelEvent, ModelFacts, ModelRequest, TextDelta
from gateway.bus.bus import RedisBus
from gateway.config.limits import Allowance, GlobalAllowance, GuestAllowance, LimitSettings, RoleAllowance
from gateway.contracts.budgets import Amounts, day_of, nano_of
from gateway.contracts.errors import ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind
from gateway.contracts.sessions import TurnState, UsagePurpose
from gateway.store import Store
from gateway.store.tables import counted_turns, reservations, spending, turns
from tests.contract.store_samples import rows
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import PATIENCE_S, until

ADA = SessionKey("telegram", "1")
UNLIMITED = LimitSettings(guest=GuestAllowance(tokens=0, usd=0, turns=0), pot=GlobalAllowance(tokens=0, usd=0))
RESET = re.compile(r"until 00:00 UTC \(in (?:\d+ h )?\d+ min\)")


async def spent(agent: AgentProcess, owner: SessionKey | None = ADA) -> Amounts:
    now_ms = agent.clock.now_ms()
    return await agent.store.spending.spent(owner, day_of(now_ms), now_ms=now_ms) or Amounts()


async def spent_when(agent: AgentProcess, is_so: Callable[[Amounts], bool]) -> Amounts:
    """Wait for what is settled behind the reply."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(found := await spent(agent)):  # noqa: ASYNC110 - SQL does not tell
            await asyncio.sleep(0.02)
    return found


async def test_at_the_limit_one_clear_sentence_and_no_model_is_asked(
    bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path
) -> None:
    """It says when it goes on; nothing is wrong, so there is no reference and no error in the log."""
    mind = Mind()
    limits = LimitSettings(user=Allowance(turns=2))
    async with running_agent(bus, sqlite_store, mind, tmp_path, limits=limits) as agent:
        await agent.ask("say one")
        await agent.ask("say two")
        await until(lambda: mind.calls == 3, lambda: mind.calls)  # the title is the third: it comes a moment later
        calls = mind.calls
        with capture_logs() as log:
            refusal = await agent.ask("say three")
        assert RESET.search(refusal)
        assert "eference" not in refusal
        assert [line for line in log if line["log_level"] in ("error", "critical")] == []
        assert mind.calls == calls
        said = await agent.transcript()
        assert said[-2:] == ["say three", refusal]
        assert "one" in await agent.ask("say one", "telegram:2")
        states = await rows(sqlite_url, select(turns.c.state, turns.c.error_reference).where(turns.c.key == str(ADA)))
        assert states.count((TurnState.FAILED.value, "")) == 1


async def test_a_command_costs_no_turn(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with running_agent(
        bus, sqlite_store, Mind(), tmp_path, limits=LimitSettings(user=Allowance(turns=1))
    ) as agent:
        await agent.ask("/sessions")
        await agent.ask("/help")
        assert "one" in await agent.ask("say one")
        assert RESET.search(await agent.ask("say two"))
        assert "Your conversations" in await agent.ask("/sessions")


async def test_everything_a_turn_spends_is_counted_as_it_is_charged(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """The title beside it, too. What was reserved and not used is free again."""
    async with running_agent(
        bus, store, Mind(), tmp_path, limits=LimitSettings(pot=GlobalAllowance(tokens=10**6))
    ) as agent:
        await agent.ask("say hello to everybody")
        session = await store.sessions.current(ADA)
        assert session is not None

        async def sums() -> set[int]:
            current = await store.sessions.by_id(session.id)
            assert current is not None
            is_titled = current.title != "New Chat"
            settled = {(await spent(agent)).tokens, (await spent(agent, None)).tokens}
            return settled | {current.tokens} if is_titled else set()

        async with asyncio.timeout(PATIENCE_S):
            while len(found := await sums()) != 1:  # noqa: ASYNC110 - SQL does not tell
                await asyncio.sleep(0.02)
        assert found != {0}


async def test_without_limits_nothing_is_written_down(
    bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path
) -> None:
    async def kept(table: Table) -> int:
        return int((await rows(sqlite_url, select(func.count()).select_from(table)))[0][0])

    limits = UNLIMITED.model_copy(update={"guest": GuestAllowance(turns=9)})
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, admins=(ADA,), limits=limits) as agent:
        await agent.ask("say hello")
        assert [await kept(table) for table in (spending, reservations, counted_turns)] == [0, 0, 0]
        await agent.ask("say hello", "telegram:2")
        assert await kept(counted_turns) == 1


async def test_guests_have_a_budget_of_their_own(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    limits = LimitSettings(user=Allowance(turns=1), admin=RoleAllowance(turns=0), guest=GuestAllowance(turns=2))
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, admins=(ADA,), limits=limits) as agent:
        for _ in range(4):
            assert "hi" in await agent.ask("say hi")
        answers = [await agent.ask("say hi", "telegram:2") for _ in range(3)]
        assert [bool(RESET.search(answer)) for answer in answers] == [False, False, True]


async def test_the_pot_ends_it_for_all(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with running_agent(
        bus, sqlite_store, Mind(), tmp_path, limits=LimitSettings(pot=GlobalAllowance(turns=1))
    ) as agent:
        await agent.ask("say hi")
        refusal = await agent.ask("say hi", "telegram:2")
        assert RESET.search(refusal)
        assert "everybody" in refusal


async def test_the_warning_is_one_line_once(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with running_agent(
        bus, sqlite_store, Mind(), tmp_path, limits=LimitSettings(user=Allowance(turns=10))
    ) as agent:
        answers = [await agent.ask(f"say {number}") for number in range(10)]
        assert ["Little is left of your turns" in answer for answer in answers] == [False] * 8 + [True, False]
        assert "Little is left" not in "".join((await agent.transcript())[1::2])


class Priced(Mind):
    """A model with a price; it stops in the middle of its answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = False

    def facts(self, model: str) -> ModelFacts:
        """Ten dollars for a million tokens."""
        return ModelFacts(context_window=32_768, output_max=8_192, prices_usd={"prompt": 1e-5, "completion": 1e-5})

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The first words, then silence."""
        if request.purpose is UsagePurpose.TURN:
            yield TextDelta("some words of the answer")
            self.has_begun = True
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


async def test_a_stopped_call_costs_what_was_read_and_written(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """An estimate: the provider has read the prompt. The rest of the reservation comes back. The conversation's own
    account says the same."""
    mind = Priced()
    async with running_agent(bus, sqlite_store, mind, tmp_path, limits=LimitSettings(user=Allowance(usd=1.0))) as agent:
        await agent.ask("/title No call for this")
        await agent.say("tell me everything")
        await until(lambda: mind.has_begun)
        held = await spent(agent)
        assert held.nano_usd >= 4_096 * 10_000
        await agent.control(ControlKind.STOP)
        after = await spent_when(agent, lambda found: found.nano_usd < 4_096 * 10_000)
        assert after.nano_usd > 0
        assert after.nano_usd == after.tokens * 10_000
    session = await sqlite_store.sessions.current(ADA)
    assert session is not None
    assert (session.tokens, nano_of(session.cost_usd)) == (after.tokens, after.nano_usd)


async def test_a_call_that_the_provider_refused_costs_nothing(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    class Refusing(Mind):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if request.purpose is UsagePurpose.TURN:
                raise ModelUnavailable("overloaded", retry_after_s=3600)
            async for event in super().stream(request):
                yield event

    async with running_agent(
        bus, sqlite_store, Refusing(), tmp_path, limits=LimitSettings(user=Allowance(tokens=10**6, turns=5))
    ) as agent:
        await agent.ask("/title fixed")
        assert "eference" in await agent.ask("say hi")
        assert await spent_when(agent, lambda found: not found.tokens) == Amounts(turns=1)


async def test_too_little_left_is_refused_although_something_is(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """A call that might cost more than is left is not begun."""
    mind = Mind()
    async with running_agent(
        bus, sqlite_store, mind, tmp_path, limits=LimitSettings(user=Allowance(tokens=100))
    ) as agent:
        assert RESET.search(await agent.ask("say hi"))
        assert mind.asked == []
        assert (await spent(agent)).turns == 0


async def test_usage_shows_what_counts_and_nobody_elses(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    limits = LimitSettings(user=Allowance(turns=10), admin=RoleAllowance(turns=0))
    async with running_agent(bus, store, Mind(), tmp_path, admins=(ADA,), limits=limits) as agent:
        await agent.ask("say hello", "telegram:2")
        await agent.ask("say hello again", "telegram:2/-100")
        mine = await agent.ask("/usage", "telegram:2")
        assert "turns: 2 of 10" in mine
        assert "2 turns" in mine
        assert "telegram" not in mine
        assert "turns: 0 of 10" in await agent.ask("/usage", "telegram:3")
        refused = await agent.ask("/usage all", "telegram:2")
        assert "admins" in refused
        assert "telegram:" not in refused
        assert "1. telegram:2: " in await agent.ask("/usage all")
        assert "telegram:2" not in await agent.ask("/usage all", "telegram:1/-100")


async def test_admins_see_what_somebody_used_also_where_nothing_is_limited(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """/limits tells what /usage tells."""
    async with running_agent(bus, store, Mind(), tmp_path, admins=(ADA,), limits=UNLIMITED) as agent:
        await agent.ask("/title No call for this", "telegram:2")
        await agent.ask("say hello", "telegram:2")
        today = (await agent.ask("/usage", "telegram:2")).partition("**This month**")[0].strip()
        assert "turns: 1" in today
        assert (await agent.ask("/limits telegram:2")).endswith(today.partition("\n")[2])


async def test_a_conversation_that_cannot_be_condensed_any_more_today_says_so(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """And not that it is too long, or that there is nothing to condense."""
    async with running_agent(bus, sqlite_store, Mind(), tmp_path) as agent:
        for number in range(4):
            await agent.ask(f"say {number} {'a long story ' * 80}")
    spent_out = LimitSettings(user=Allowance(tokens=1))
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, limits=spent_out, context_window=1_024) as agent:
        assert RESET.search(await agent.ask("/compact"))
        assert RESET.search(await agent.ask("say one more"))


async def test_a_turn_that_another_worker_takes_over_is_counted_once(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The first worker called the model and lost its lane; the second calls it again for the same turn."""
    mind = Mind()
    gate = mind.hold()
    limits = LimitSettings(user=Allowance(turns=1))
    async with running_agent(bus, sqlite_store, mind, tmp_path, limits=limits) as agent:
        await agent.say("say hi")
        await mind.until_asked(1)
        await agent.reap()
        await mind.until_asked(2)
        gate.set()
        assert "hi" in (await agent.heard(1))[0].text
        assert (await spent(agent)).turns == 1
        assert RESET.search(await agent.ask("say hi again"))
