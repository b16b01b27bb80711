"""What people are told of sub-agents at work: committed, published, once, on a real store and a real bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from agent.limits import STATUS_LINES_MAX
from agent.running.background import Background
from agent.subagents.status.lines import StatusLines
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.entries import Session
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.contracts.subagents import SubTask, TaskEnding, TaskState
from gateway.scrub import Scrubber
from gateway.store import SqlStore
from tests.contract.store_samples import CHAT
from tests.contract.subtask_samples import WORKER, asked, conversation
from tests.parts.waiting import PATIENCE_S

CLOCK = SystemClock()


class Chat:
    """Sub-agents that work for Ann, and what her chat would be sent."""

    def __init__(self, store: SqlStore, bus: RedisBus, session: Session) -> None:
        self.store = store
        self.bus = bus
        self.session = session
        self.background = Background()
        self.sent: list[Reply] = []

    def lines(self, *, is_on: bool = True, waits_after_s: float = 60.0) -> StatusLines:
        """Those of one agent process."""
        return StatusLines(
            self.store,
            self.bus.lanes,
            Scrubber(known_values=["hunter2hunter2"]),
            CLOCK,
            self.background,
            is_on=is_on,
            every_s=0.0,
            waits_after_s=waits_after_s,
        )

    async def opened(self, id_: str, parent: SubTask | None = None, *, label: str = "") -> SubTask:
        task = asked(parent or self.session, id_, at_ms=CLOCK.now_ms())
        return await self.store.tasks.open(replace(task, label=CleanText(label)) if label else task, wake=None)

    async def running(self, id_: str, parent: SubTask | None = None, *, label: str = "") -> SubTask:
        await self.opened(id_, parent, label=label)
        now_ms = CLOCK.now_ms()
        await self.store.tasks.start(id_, worker_id=WORKER, alive_until_ms=now_ms, now_ms=now_ms, live_max=99)
        return await self.now(id_)

    async def over(self, id_: str, state: TaskState = TaskState.COMPLETED) -> SubTask:
        await self.store.tasks.finish(id_, TaskEnding(state, CLOCK.now_ms()))
        return await self.now(id_)

    async def now(self, id_: str) -> SubTask:
        found = await self.store.tasks.task(id_)
        assert found is not None
        return found

    async def until(self, holds: Callable[[list[Reply]], object]) -> list[Reply]:
        """All that was sent so far, once `holds` of it."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(self.sent):
                for pending in await self.bus.deliveries.replies(CHAT.channel, "test", count=50, wait_s=0.1):
                    self.sent.append(pending.reply)
        return self.sent

    async def silence(self) -> list[Reply]:
        """All that was sent, when nobody has anything to say any more."""
        await self.background.finish(timeout_s=PATIENCE_S)
        return await self.until(lambda sent: True) or [
            pending.reply for pending in await self.bus.deliveries.replies(CHAT.channel, "test", count=50, wait_s=0.05)
        ]


@pytest.fixture
async def chat(sqlite_store: SqlStore, bus: RedisBus) -> AsyncIterator[Chat]:
    chat = Chat(sqlite_store, bus, await conversation(sqlite_store))
    yield chat
    await chat.background.finish(timeout_s=PATIENCE_S)


async def test_a_line_when_it_starts_and_the_same_line_when_it_is_over(chat: Chat) -> None:
    """Both are committed before they are published, as replies of the turn."""
    lines = chat.lines()
    task = await chat.running("k1", label="log in with hunter2hunter2")
    lines.started(task, CHAT, "")
    (first,) = await chat.until(lambda sent: len(sent) == 1)
    assert (first.kind, first.address, first.key, first.turn_id) == (ReplyKind.STATUS, CHAT, task.key, task.turn_id)
    assert first.text.startswith("⏳ explore: log in with ")
    assert "hunter2hunter2" not in first.text
    assert await chat.store.committed_reply(first.id) == first

    lines.ended(await chat.over("k1"))
    _, last = await chat.until(lambda sent: len(sent) == 2)
    assert (last.amends, last.kind, last.text[0]) == (first.id, ReplyKind.STATUS, "✓")
    assert await chat.store.committed_reply(last.id) == last


async def test_one_that_waits_says_so_only_after_a_while(chat: Chat) -> None:
    patient, impatient = chat.lines(), chat.lines(waits_after_s=0.0)
    task = await chat.opened("k1")
    patient.started(task, CHAT, "")
    patient.started(await chat.running("k1"), CHAT, "")
    assert [reply.text for reply in await chat.until(lambda sent: sent)] == ["⏳ explore: label of k1"]

    impatient.started(await chat.opened("k2"), CHAT, "")
    await chat.until(lambda sent: len(sent) == 2)
    impatient.started(await chat.running("k2"), CHAT, "")
    *_, waiting, running = await chat.until(lambda sent: len(sent) == 3)
    assert waiting.text == "⏳ explore: label of k2 (waits)"
    assert running.text == "⏳ explore: label of k2"
    assert running.amends == waiting.id


async def test_many_at_once_are_a_few_lines(chat: Chat) -> None:
    lines = chat.lines()
    tasks = [await chat.running(f"k{number}") for number in range(9)]
    for task in tasks:
        lines.started(task, CHAT, "")
    await chat.until(lambda sent: len({reply.amends or reply.id for reply in sent}) == STATUS_LINES_MAX + 1)
    for task in tasks:
        lines.ended(await chat.over(task.id))
    sent = await chat.until(lambda sent: any(reply.text.startswith("✓ 6 more: 6 of them done") for reply in sent))
    assert len([reply for reply in sent if not reply.amends]) == STATUS_LINES_MAX + 1


async def test_whoever_has_no_line_has_none(chat: Chat) -> None:
    """A sub-agent of a sub-agent; one whose turn has no address; anybody, where they are switched off; one that was
    cancelled before it began, or many."""
    lines, off = chat.lines(), chat.lines(is_on=False)
    parent = await chat.running("k1")
    child = await chat.running("k2", parent)
    off.started(parent, CHAT, "")
    off.ended(await chat.over("k2"))
    lines.started(child, CHAT, "")
    lines.ended(await chat.now("k2"))
    lines.started(await chat.running("k3"), None, "")
    lines.started(await chat.opened("k4"), CHAT, "")
    lines.ended(await chat.over("k4", TaskState.CANCELLED))
    for number in range(5, 12):
        lines.started(await chat.opened(f"k{number}"), CHAT, "")
    for number in range(5, 12):
        lines.ended(await chat.over(f"k{number}", TaskState.CANCELLED))
    assert await chat.silence() == []


async def test_one_whose_process_was_lost_is_told_of_by_another(chat: Chat) -> None:
    """Which finds its line in SQL; one that had no line gets none."""
    dead, living = chat.lines(), chat.lines()
    dead.started(await chat.running("k1"), CHAT, "")
    (first,) = await chat.until(lambda sent: sent)
    await chat.running("k2")
    for task in await chat.store.tasks.lose(now_ms=CLOCK.now_ms() + 60_000):
        for _ in range(2):
            living.ended(task)
    _, last = await chat.until(lambda sent: len(sent) == 2)
    assert last.amends == first.id
    assert "its process was lost" in last.text
    await chat.silence()
    assert len(chat.sent) == 2


async def test_what_is_said_twice_is_sent_once(chat: Chat) -> None:
    """By the process that had it and by the one that found it lost."""
    first, second = chat.lines(), chat.lines()
    task = await chat.running("k1")
    first.started(task, CHAT, "")
    first.started(task, CHAT, "")
    await chat.until(lambda sent: sent)
    ended = await chat.over("k1", TaskState.FAILED)
    for lines in (first, second, first):
        lines.ended(ended)
    await chat.until(lambda sent: len(sent) == 2)
    await chat.silence()
    assert len(chat.sent) == 2
