"""What people notice when a process is told to leave, loses its lease, or finds bus or database away: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from agent.runtime.relay import Relay
from gateway.bus.bus import RedisBus, open_bus
from gateway.clock import SystemClock
from gateway.contracts.errors import BusUnavailable, StoreUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Receipt, Reply, ReplyKind
from gateway.contracts.ports import Claim, Ownership, PendingReply
from gateway.contracts.sessions import Committed, PromptQuery, TurnCommit, TurnStart, UsagePurpose
from gateway.limits import TURN_ATTEMPTS_MAX
from gateway.store import Store, open_store
from gateway.telemetry.metrics import Tally
from gateway.telemetry.spans import NoSpans
from tests.doubles import ManualClock
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until

pytestmark = pytest.mark.both_databases

ANNA = "telegram:1"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path) as process:
        yield process


# --- leaving


async def test_a_process_that_leaves_hands_its_turns_over_without_counting_an_attempt(
    bus: RedisBus, store: Store, tmp_path: Path, mind: Mind
) -> None:
    """Every place is taken by turns that take too long, and more is waiting: it leaves after its grace all the same."""
    mind.hold()
    async with running_agent(bus, store, mind, tmp_path, concurrency=2, grace_s=0.1) as agent:
        for user in range(1, 5):
            await agent.say("think for ever", f"telegram:{user}")
        await mind.until_asked(2)
    await bus.lanes.register("heir", lease_ttl_s=60)
    found = await bus.lanes.claim("heir", lanes_max=9, messages_max=9, attempts_max=4)
    assert sorted(str(claim.key) for claim in found.claims) == [f"telegram:{user}" for user in range(1, 5)]
    assert {claim.attempts for claim in found.claims} == {0}


async def test_a_turn_in_its_last_seconds_may_finish(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> None:
    gate = mind.hold()
    async with running_agent(bus, store, mind, tmp_path) as agent:
        await agent.say("hello")
        await mind.until_asked(1)
        agent.stopping.set()
        await agent.say("too late for this process", "telegram:2")
        gate.set()
        (reply,) = await agent.heard(1)
    assert reply.text.startswith("You said: hello")
    assert len(mind.asked) == 1


# --- the lease


async def test_a_lost_lease_ends_every_run_without_a_trace(agent: AgentProcess, mind: Mind) -> None:
    """Somebody else has the lanes; this process begins anew, and may even get them back."""
    gate = mind.hold()
    for user in (1, 2):
        await agent.say("hello", f"telegram:{user}")
    await mind.until_asked(2)
    await agent.reap()
    await mind.until_asked(4)
    gate.set()
    replies = await agent.heard(2)
    assert [reply.text.split("\n")[0] for reply in replies] == ["You said: hello"] * 2
    assert len(mind.asked) == 4
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 3


# --- bus and database away


async def test_an_outage_of_the_database_costs_neither_an_answer_nor_an_attempt(
    agent: AgentProcess, mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes away before the turn, in it, and at its commit: the model is asked once per prompt it really got."""
    begin, view, commit = agent.store.turns.begin, agent.store.transcript.prompt_start, agent.store.turns.commit
    failed: list[str] = []

    def fail(name: str, times: int) -> None:
        if failed.count(name) < times:
            failed.append(name)
            raise StoreUnavailable("the test took the database away")

    async def begin_turn(**asked: Any) -> TurnStart:
        fail("begin", 2)
        return await begin(**{**asked, "prompt": None})  # so that the turn has to read by itself

    async def broken_view(session_id: str, key: SessionKey, query: PromptQuery) -> object:
        fail("view", 1)
        return await view(session_id, key, query)

    async def commit_turn(done: TurnCommit) -> Committed:
        fail("commit", TURN_ATTEMPTS_MAX + 1)
        return await commit(done)

    monkeypatch.setattr(agent.store.turns, "begin", begin_turn)
    monkeypatch.setattr(agent.store.transcript, "prompt_start", broken_view)
    monkeypatch.setattr(agent.store.turns, "commit", commit_turn)
    assert "You said: hello" in await agent.ask("hello")
    assert len(mind.asked) == 1
    assert (failed.count("begin"), failed.count("view"), failed.count("commit")) == (2, 1, TURN_ATTEMPTS_MAX + 1)


async def test_a_process_cut_off_from_the_database_leaves_the_lanes_to_the_others(
    bus: RedisBus, store: Store, database_url: str, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the bus, so its leases hold for as long as it lives: only it can let go."""
    cut_off, tried = open_store(database_url), asyncio.Event()

    async def away(*_args: object, **_named: object) -> None:
        tried.set()
        raise StoreUnavailable("the test cut this process off")

    monkeypatch.setattr(cut_off.turns, "begin", away)
    monkeypatch.setattr(cut_off.access, "revision", away)
    elsewhere = await open_bus(valkey_url)
    async with (
        running_agent(elsewhere, cut_off, ScriptedClient(), tmp_path),
        running_agent(bus, store, ScriptedClient(), tmp_path, concurrency=1) as agent,
    ):
        for user in range(1, 4):
            await agent.say("hello", f"telegram:{user}")
        await tried.wait()
        answers = await agent.heard(3)
    assert all("You said: hello" in answer.text for answer in answers)
    await elsewhere.close()
    await cut_off.close()


async def test_an_outage_of_the_bus_in_mid_commit_publishes_once(
    agent: AgentProcess, mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost, not the commit: insisting changes nothing, and the lane goes on."""
    commit = agent.bus.lanes.commit
    tries = 0

    async def unheard(claim: Claim, *, handled: int, replies: tuple[Reply, ...] = (), **more: Any) -> bool:
        nonlocal tries
        tries += 1
        is_ours = await commit(claim, handled=handled, replies=replies, **more)
        if tries < 3:
            raise BusUnavailable("the test lost the answer")
        return is_ours

    monkeypatch.setattr(agent.bus.lanes, "commit", unheard)
    assert "You said: hello" in await agent.ask("hello")
    assert "You said: next" in await agent.ask("next")
    assert (len(agent.replies), len(mind.asked)) == (2, 2)


async def test_a_turn_waits_for_a_bus_that_is_away(
    agent: AgentProcess, mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say whether the lane is still ours: no model is called before somebody can."""
    ownership = agent.bus.lanes.ownership
    asked = 0

    async def silent(key: SessionKey, fence: int) -> Ownership:
        nonlocal asked
        asked += 1
        if asked <= 3:
            raise BusUnavailable("the test took the bus away")
        assert mind.calls == 0
        return await ownership(key, fence)

    monkeypatch.setattr(agent.bus.lanes, "ownership", silent)
    await agent.say("hello")
    await until(lambda: asked > 3)
    monkeypatch.undo()
    assert "You said: hello" in (await agent.heard(1))[0].text


# --- dead letters


async def test_a_message_that_cannot_be_answered_is_given_up_and_its_author_told(
    bus: RedisBus, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation goes on without asking for it again."""
    monkeypatch.setattr("agent.runtime.run.RETRY_DELAYS_S", (0.0,))
    runs = 0

    class Poisoned(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            nonlocal runs
            if request.purpose is UsagePurpose.TURN and request.messages[-1].text.endswith("poison"):
                runs += 1
                raise RuntimeError("the test's poison")
            async for event in super().stream(request):
                yield event

    async with running_agent(bus, store, Poisoned(), tmp_path) as agent:
        sorry = await agent.ask("poison", within_s=60)
        assert "could not answer" in sorry
        assert runs == TURN_ATTEMPTS_MAX
        assert "You said: hello" in await agent.ask("hello")
        assert (await agent.transcript())[:3] == [
            "poison",
            "(This message could not be answered, after several tries.)",
            "hello",
        ]
    assert len(agent.replies) == 2


# --- the relay


async def test_the_relay_publishes_what_was_lost_and_only_that(bus: RedisBus, database_url: str) -> None:
    """One reply never reached the bus, one waits there, one is on its way, one has arrived and nobody wrote it down."""
    clock = ManualClock(SystemClock().now_ms())
    store = open_store(database_url, clock)
    lost, waiting, going, arrived = replies = [_reply(number, clock.now_ms()) for number in range(4)]
    await store.outbox.put(replies)
    await bus.deliveries.publish([waiting, going, arrived])
    taken = {p.reply.id: p for p in await bus.deliveries.replies("telegram", "c1", count=9, wait_s=0.1)}
    begun = DeliveryRecord(going.id, DeliveryState.SENDING, attempt=1)
    assert await bus.deliveries.record("telegram", taken[going.id].entry_id, begun)
    sent = DeliveryRecord(arrived.id, DeliveryState.SENT, attempt=1, platform_ids=("1",))
    await bus.deliveries.finish("telegram", taken[arrived.id].entry_id, Receipt(sent, arrived.key, "telegram"))
    clock.at_ms += 60_000
    relay = Relay("relay-1", bus.deliveries, store, clock, NoSpans(), Tally())
    assert await relay.write_receipts() == 1
    assert await relay.sweep() == 3
    again = await bus.deliveries.replies("telegram", "c1", count=9, wait_s=0.1)
    assert [pending.reply.id for pending in again] == [lost.id]
    assert waiting.id in taken
    await store.close()


async def test_a_receipt_that_sql_did_not_take_is_written_later(
    bus: RedisBus, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus gives it to one relay, once: that relay keeps it."""
    reply = _reply(1, 1_000)
    await store.outbox.put([reply])
    await bus.deliveries.publish([reply])
    (pending,) = await bus.deliveries.replies("telegram", "c1", count=9, wait_s=1)
    record = DeliveryRecord(reply.id, DeliveryState.SENT, attempt=1)
    await bus.deliveries.finish("telegram", pending.entry_id, Receipt(record, reply.key, "telegram"))
    relay = Relay("relay-1", bus.deliveries, store, SystemClock(), NoSpans(), Tally())

    async def away(_receipts: object) -> None:
        raise StoreUnavailable("the test took the database away")

    with monkeypatch.context() as outage:
        outage.setattr(store.outbox, "record_receipts", away)
        with pytest.raises(StoreUnavailable):
            await relay.write_receipts()
    assert await relay.write_receipts() == 1
    (known,) = await store.outbox.recent(reply.key, limit=5)
    assert known.state is DeliveryState.SENT


async def test_receipts_of_a_moment_are_written_together(bus: RedisBus, store: Store, valkey_url: str) -> None:
    """And while they are gathered the bus has them: whoever dies over it loses none."""
    replies = [_reply(number, 1_000) for number in range(2)]
    await store.outbox.put(replies)
    await bus.deliveries.publish(replies)
    first, second = await bus.deliveries.replies("telegram", "c1", count=9, wait_s=1)

    async def arrives(pending: PendingReply) -> None:
        record = DeliveryRecord(pending.reply.id, DeliveryState.SENT, attempt=1)
        await bus.deliveries.finish("telegram", pending.entry_id, Receipt(record, pending.reply.key, "telegram"))

    await arrives(first)
    for dies in (True, False):
        opened = await open_bus(valkey_url)
        taken, take = asyncio.Event(), opened.deliveries.take_receipts

        async def taking(worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
            found = await take(worker, count=count, wait_s=wait_s)  # noqa: B023 - of this round
            taken.set()  # noqa: B023
            return found

        opened.deliveries.take_receipts = taking  # type: ignore[method-assign]
        relay = Relay("relay-1", opened.deliveries, store, SystemClock(), NoSpans(), Tally())
        writing = asyncio.create_task(relay.write_receipts())
        await taken.wait()
        if dies:
            writing.cancel()
            await asyncio.wait({writing})
        else:
            await arrives(second)
            assert await writing == 2
        await opened.close()


def _reply(number: int, created_at_ms: int) -> Reply:
    said = message("hello", ANNA)
    return Reply(
        id=f"t{number}:1",
        turn_id=f"t{number}",
        key=said.key,
        address=said.address,
        text=said.text,
        kind=ReplyKind.ANSWER,
        created_at_ms=created_at_ms,
    )
