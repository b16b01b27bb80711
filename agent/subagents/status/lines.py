"""What people see in a chat of sub-agents at work: a quiet line for each, edited in place.

    a child is asked for ──▶ (waits a while? "waits") ──▶ runs: a line ──▶ is over: the same line, edited

The lines of a turn follow from its tasks (`status_texts`); what changed is committed and published like any reply, one
after the other and not more often than every `every_s`, in the background: nobody waits for a status line, and none
that fails is missed. Ids follow from task and wording, so whoever says a thing once more says it once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import structlog

from agent.limits import (
    STATUS_EVERY_S,
    STATUS_INSIST_S,
    STATUS_LINES_MAX,
    STATUS_TURNS_MAX,
    STATUS_WAITS_AFTER_S,
)
from agent.running.background import Background
from agent.running.insisting import insist
from agent.subagents.status.texts import REST, StatusLine, status_lines
from gateway.contracts.errors import BusUnavailable, StoreUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import STATUS_PREFIX, Reply, ReplyKind
from gateway.contracts.ports import Clock, LaneBus, Scrubber, Store
from gateway.contracts.subagents import SubTask
from gateway.words import Words, words_for

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Turn:
    """The sub-agents of one turn, in the order in which they were asked for, and what is shown of them: the last
    wording of each line by its name."""

    id: str
    key: SessionKey
    address: ReplyAddress
    words: Words
    tasks: dict[str, SubTask] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    showing: asyncio.Task[None] | None = None


class StatusLines:
    """The status lines of one process. Nothing here raises, and nothing waits for a platform."""

    def __init__(
        self,
        store: Store,
        lanes: LaneBus,
        scrubber: Scrubber,
        clock: Clock,
        background: Background,
        *,
        is_on: bool = True,
        every_s: float = STATUS_EVERY_S,
        waits_after_s: float = STATUS_WAITS_AFTER_S,
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._scrubber = scrubber
        self._clock = clock
        self._background = background
        self._is_on = is_on
        self._every_s = every_s
        self._waits_after_s = waits_after_s
        self._turns: OrderedDict[str, _Turn] = OrderedDict()

    def started(self, task: SubTask, address: ReplyAddress | None, language: str) -> None:
        """It was asked for, or runs: to be told with it queued, and once more when it runs. A sub-agent of a sub-agent
        has no line, nor has one whose turn has no address. `language` is that of who reads it."""
        turn = self._turns.get(task.turn_id)
        if not self._has_line(task) or (turn is None and address is None):
            return
        if turn is None and address is not None:
            turn = self._turns[task.turn_id] = _Turn(task.turn_id, task.key, address, words_for(language))
            while len(self._turns) > STATUS_TURNS_MAX:
                self._turns.popitem(last=False)
        if turn is not None:
            self._tell(turn, task)

    def ended(self, task: SubTask) -> None:
        """It is over, as `task` says. Also for one that another process had begun, and lost."""
        if not self._has_line(task):
            return
        turn = self._turns.get(task.turn_id)
        if turn is not None and task.id in turn.tasks:
            self._tell(turn, task)
        else:
            self._background.start(self._end_of_a_lost_one(task))

    def _has_line(self, task: SubTask) -> bool:
        return self._is_on and task.depth == 1

    def _tell(self, turn: _Turn, task: SubTask) -> None:
        known = turn.tasks.get(task.id)
        if known is None or not known.state.is_over:
            turn.tasks[task.id] = task
            turn.news.set()
        if turn.showing is None or turn.showing.done():
            turn.showing = self._background.start(self._show(turn))

    async def _show(self, turn: _Turn) -> None:
        """Until everything that there is to say is said."""
        while True:
            turn.news.clear()
            now_ms = self._clock.now_ms()
            told = status_lines(tuple(turn.tasks.values()), turn.words, own_max=STATUS_LINES_MAX)
            unsaid = [line for line in told if _is_news(line, turn.shown.get(line.name))]
            due = [line for line in unsaid if self._due_in_s(line, now_ms) <= 0]
            if due:
                await self._publish([self._reply(turn, line) for line in due])
                turn.shown |= {line.name: line.step for line in due}
                await asyncio.sleep(self._every_s)
            elif unsaid:
                await _until_set(turn.news, within_s=min(self._due_in_s(line, now_ms) for line in unsaid))
            else:
                return

    def _due_in_s(self, line: StatusLine, now_ms: int) -> float:
        """One that waits only for a moment is not said to wait."""
        if not line.waits_since_ms:
            return 0.0
        return self._waits_after_s - (now_ms - line.waits_since_ms) / 1000

    def _reply(self, turn: _Turn, line: StatusLine) -> Reply:
        first = Reply(
            id=_id(turn.id, line.name),
            turn_id=turn.id,
            key=turn.key,
            address=turn.address,
            text=self._scrubber.for_chat(str(turn.key)).scrub(line.text),
            kind=ReplyKind.STATUS,
            created_at_ms=self._clock.now_ms(),
            language=turn.words.language.value,
        )
        return _edit_of(first, line) if line.name in turn.shown else first

    async def _end_of_a_lost_one(self, task: SubTask) -> None:
        """What this process has not begun it finds in SQL: the line, and how the others of its turn stand."""
        first = [each for each in await self._store.tasks.tasks_of_turn(task.turn_id) if each.depth == 1]
        for name in (task.id, REST):
            shown = await self._store.committed_reply(_id(task.turn_id, name))
            if shown is None:
                continue
            for line in status_lines(first, words_for(shown.language), own_max=STATUS_LINES_MAX):
                if line.name == name:
                    text = self._scrubber.for_chat(str(shown.key)).scrub(line.text)
                    await self._publish([_edit_of(replace(shown, text=text, created_at_ms=self._clock.now_ms()), line)])

    async def _publish(self, replies: Sequence[Reply]) -> None:
        try:
            await insist(lambda: self._store.put_outbox(replies), for_s=STATUS_INSIST_S)
            await insist(lambda: self._lanes.republish(replies), for_s=STATUS_INSIST_S)
        except (BusUnavailable, StoreUnavailable) as error:
            _log.warning("status.unsaid", lines=len(replies), reason=str(error))


async def _until_set(event: asyncio.Event, *, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return


def _is_news(line: StatusLine, said: str | None) -> bool:
    """Of what ended before it began nobody is told who has not been told that it waits."""
    return line.step != said and not (line.is_moot and said is None)


def _id(turn_id: str, name: str) -> str:
    return f"{STATUS_PREFIX}{turn_id}:{name}"


def _edit_of(first: Reply, line: StatusLine) -> Reply:
    return replace(first, id=f"{first.id}:{line.step}", amends=first.id)
