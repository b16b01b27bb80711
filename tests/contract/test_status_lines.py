"""What people are told of sub-agents at work: committed, published, once, on a real store and a real bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from agent.subagents.status import StatusLines
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks
from tests.contract.store_samples import CHAT
from tests.contract.subtask_samples import WORKER, asked, conversation
from tests.parts.waiting import PATIENCE_S

CLOCK = SystemClock()


class Chat:
    """Sub-agents that work for Ann, and what her chat would be sent."""

    def __init__(self, store: Store, bus: RedisBus, session: Session) -> None:
        self.store = store
        self.bus = bus
        self.session = session
        self.background = BackgroundTasks()
        self.sent: list[Reply] = []

    def lines(self, *, is_on: bool = True, waits_after_s: float = 60.0) -> StatusLines:
        """Those of one agent process."""
        return StatusLines(
            self.store,
            self.bus.deliveries,
            Scrubber(known_values=["hunter2hunter2"]),
            CLOCK,
            self.background,
            is_on=is_on,
            gather_s=0.02,
            every_s=0.0,
            waits_after_s=waits_after_s,
        )

    async def opened(
        self, id_: str, parent: SubTask | None = None, *, label: str = "", mode: TaskMode = TaskMode.INLINE
    ) -> SubTask:
        task = asked(parent or self.session, id_, mode=mode, at_ms=CLOCK.now_ms())
        return await self.store.tasks.open(replace(task, label=CleanText(label)) if label else task, wake=None)

    async def running(
        self, id_: str, parent: SubTask | None = None, *, label: str = "", mode: TaskMode = TaskMode.INLINE
    ) -> SubTask:
        await self.opened(id_, parent, label=label, mode=mode)
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
async def chat(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[Chat]:
    chat = Chat(sqlite_store, bus, await conversation(sqlite_store))
    yield chat
    await chat.background.finish(timeout_s=PATIENCE_S)


async def test_where_others_read_it_the_person_is_named(chat: Chat) -> None:
    """Also by the process that goes on with the message of another, which knows only the message."""
    dead, living = chat.lines(), chat.lines()
    dead.started(await chat.running("k1"), CHAT, "", person="Ann *the* great")
    (first,) = await chat.until(lambda sent: len(sent) == 1)
    assert first.text.splitlines()[0] == "Ann \\*the\\* great's sub-agents:"
    assert first.text.splitlines()[1].startswith("⏳ explore: ")
    living.ended(await chat.over("k1"))
    edit = (await chat.until(lambda sent: len(sent) == 2))[-1]
    assert edit.amends == first.id
    assert edit.text.splitlines()[0] == first.text.splitlines()[0]
    assert edit.text.splitlines()[1].startswith("✓ explore: ")


async def test_a_line_when_it_starts_and_the_same_line_when_it_is_over(chat: Chat) -> None:
    """Both are committed before they are published, as replies of the turn."""
    lines = chat.lines()
    task = await chat.running("k1", label="log in with hunter2hunter2")
    lines.started(task, CHAT, "")
    (first,) = await chat.until(lambda sent: len(sent) == 1)
    assert (first.kind, first.address, first.key, first.turn_id) == (ReplyKind.STATUS, CHAT, task.key, task.turn_id)
    assert first.text.startswith("⏳ explore: log in with ")
    assert "hunter2hunter2" not in first.text
    assert await chat.store.outbox.committed(first.id) == first

    lines.ended(await chat.over("k1"))
    _, last = await chat.until(lambda sent: len(sent) == 2)
    assert (last.amends, last.kind, last.text[0]) == (first.id, ReplyKind.STATUS, "✓")
    assert await chat.store.outbox.committed(last.id) == last


async def test_one_that_waits_says_so_only_after_a_while(chat: Chat) -> None:
    lines = chat.lines(waits_after_s=0.2)
    lines.started(await chat.opened("k1"), CHAT, "")
    assert [reply.text for reply in await chat.until(lambda sent: sent)] == ["⏳ explore: label of k1 (waits)"]
    lines.started(await chat.running("k1"), CHAT, "")
    waiting, running = await chat.until(lambda sent: len(sent) == 2)
    assert running.text == "⏳ explore: label of k1"
    assert running.amends == waiting.id


async def test_all_of_a_turn_are_one_message_with_a_line_for_each(chat: Chat) -> None:
    """Those in the background, which outlive it, have another one, which belongs to no turn."""
    lines = chat.lines()
    tasks = [await chat.running(f"k{number}") for number in range(9)]
    later = await chat.running("later", mode=TaskMode.BACKGROUND)
    for task in (*tasks, later):
        lines.started(task, CHAT, "")
    first, other = sorted(await chat.until(lambda sent: len(sent) == 2), key=lambda reply: -len(reply.text))
    assert first.text.split("\n") == [f"⏳ explore: label of k{number}" for number in range(9)]
    assert (other.text, other.turn_id, other.amends) == ("⏳ explore: label of later", "", "")
    for task in tasks:
        lines.ended(await chat.over(task.id))
    *_, last = await chat.until(lambda sent: sent[-1].text.count("✓") == 9)
    assert last.amends == first.id
    assert len([reply for reply in chat.sent if not reply.amends]) == 2


async def test_whoever_has_no_line_has_none(chat: Chat) -> None:
    """A sub-agent of a sub-agent; one whose turn has no address; anybody, where they are switched off; one that was
    over before anybody could be told: the answer says what came of it, and a line would come behind."""
    lines, off = chat.lines(), chat.lines(is_on=False)
    parent = await chat.running("k1")
    child = await chat.running("k2", parent)
    off.started(parent, CHAT, "")
    off.ended(await chat.over("k2"))
    lines.started(child, CHAT, "")
    lines.ended(await chat.now("k2"))
    lines.started(await chat.running("k3"), None, "")
    lines.ended(await chat.over("k3"))
    await chat.silence()
    lines.started(await chat.opened("k4"), CHAT, "")
    lines.ended(await chat.over("k4", TaskState.CANCELLED))
    await chat.over("k1")
    quick = chat.lines()
    running, over = await chat.running("k5"), await chat.over("k5")
    quick.started(running, CHAT, "")
    quick.ended(over)
    assert await chat.silence() == []


async def test_a_turn_that_is_taken_again_goes_on_with_its_message(chat: Chat) -> None:
    """In another process, which knows nothing of the first one's."""
    dead, living = chat.lines(), chat.lines()
    dead.started(await chat.running("k1"), CHAT, "")
    (first,) = await chat.until(lambda sent: sent)
    await chat.over("k1", TaskState.FAILED)
    living.started(await chat.running("k2"), CHAT, "")
    _, second = await chat.until(lambda sent: len(sent) == 2)
    assert second.amends == first.id
    assert [line[0] for line in second.text.split("\n")] == ["✗", "⏳"]


async def test_an_end_that_nobody_lived_to_tell_of_is_told_by_the_next_process(chat: Chat) -> None:
    """And by no further one."""
    dead = chat.lines()
    dead.started(await chat.running("k1"), CHAT, "")
    (first,) = await chat.until(lambda sent: sent)
    ended = await chat.over("k1")
    for _ in range(3):
        chat.lines().ended(ended)
        _, last = await chat.until(lambda sent: len(sent) == 2)
        assert (last.amends, last.text[0]) == (first.id, "✓")
        await chat.background.finish(timeout_s=PATIENCE_S)
    assert len(await chat.until(lambda sent: True)) == 2


async def test_one_whose_process_was_lost_is_told_of_by_another(chat: Chat) -> None:
    """Which finds its message in SQL."""
    dead, living = chat.lines(), chat.lines()
    dead.started(await chat.running("k1"), CHAT, "")
    (first,) = await chat.until(lambda sent: sent)
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
