"""Status lines of sub-agents in a chat: one quiet message of a turn, with a line for each, edited in place.

    some are asked for ──▶ a moment to gather ──▶ one message, silent ──▶ edited as they go on ──▶ … ──▶ all are over

The text follows from the tasks of the turn (`status_text`). It is committed and published like any reply, not more
often than `every_s` says, and nobody waits for it. Sub-agents in the background, which outlive their turn, have a
message of their own. The first wording is said only while somebody is at work, so that nothing of what a turn waited
for comes after its answer. Ids follow from turn and wording: saying a thing again says it once, and a process that
finds a turn of another one goes on with its message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b
from typing import Final

import structlog

from agent import limits
from agent.subagents.texts import StatusText, heading, heading_of, status_text
from gateway.bounded_dict import BoundedDict
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusUnavailable, StoreUnavailable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import STATUS_PREFIX, CleanText, Reply, ReplyKind, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import SubTask, TaskMode
from gateway.i18n import words_for
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks, RetryPolicy, retry_until_available, wait_at_most

_log = structlog.get_logger(__name__)

_STEP_BYTES: Final = 6  # of a wording, to tell it from the few others of one message


@dataclass(slots=True)
class _Message:
    """The sub-agents of one turn and mode, by id, in the order in which they were asked for, and what is shown of them.

    `first` is the reply that opened it, or is going to: None while nobody knows an address. `said` is the wording
    that is there, None before there is any."""

    id: str
    turn_id: str
    mode: TaskMode
    first: Reply | None = None
    said: str | None = None
    heading: str = ""
    is_found: bool = False
    tasks: dict[str, SubTask] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    showing: asyncio.Task[None] | None = None

    def learn(self, task: SubTask) -> None:
        """Update a task; one that is over stays so."""
        known = self.tasks.get(task.id)
        if known is None or not known.state.is_over:
            self.tasks[task.id] = task


@dataclass(eq=False, repr=False)
class StatusLines:
    """The status lines of one process. Nothing here raises, and nothing waits for a platform. Sub-agents that are
    ordered within `gather_s` are shown together; then a message changes once in `every_s`. One that has waited for
    `waits_after_s` is shown as waiting."""

    store: Store
    deliveries: Deliveries
    scrubber: Scrubber
    clock: Clock
    background: BackgroundTasks
    _: KW_ONLY
    is_on: bool = True
    gather_s: float = limits.STATUS_GATHER_S
    every_s: float = limits.STATUS_EVERY_S
    waits_after_s: float = limits.STATUS_WAITS_AFTER_S
    _messages: BoundedDict[str, _Message] = field(
        init=False, default_factory=lambda: BoundedDict(limits.STATUS_TURNS_MAX)
    )

    def started(self, task: SubTask, address: ReplyAddress | None, language: str, *, person: str = "") -> None:
        """Show a task that was ordered or runs: as queued first, and again when it runs. A sub-agent of a sub-agent has
        no line, nor has one whose turn has no address. `language` is that of the readers; `person` is named above the
        lines, where others read them too."""
        if not self._has_line(task):
            return
        message = self._message(task)
        if message.first is None and address is not None:
            message.first = self._opening(message, task, address, language)
            message.heading = heading(person, words_for(language))
        self._tell(message, task)

    def ended(self, task: SubTask) -> None:
        """Show that a task is over, as `task` says. This includes tasks that another process had begun and lost, or did
        not live to report."""
        if self._has_line(task):
            self._tell(self._message(task), task)

    def _has_line(self, task: SubTask) -> bool:
        return self.is_on and task.depth == 1

    def _message(self, task: SubTask) -> _Message:
        outlives = f":{task.mode.value}" if task.mode is TaskMode.BACKGROUND else ""
        id_ = f"{STATUS_PREFIX}{task.turn_id}{outlives}"
        return self._messages.setdefault(id_, _Message(id_, task.turn_id, task.mode))

    def _opening(self, message: _Message, task: SubTask, address: ReplyAddress, language: str) -> Reply:
        """Build the reply without its text. The line of a task that outlives its turn does not belong to that turn."""
        return Reply(
            id=message.id,
            turn_id="" if message.mode is TaskMode.BACKGROUND else message.turn_id,
            key=task.key,
            address=address,
            text=literal_text(""),
            kind=ReplyKind.STATUS,
            created_at_ms=self.clock.now_ms(),
            language=words_for(language).language.value,
        )

    def _tell(self, message: _Message, task: SubTask) -> None:
        message.learn(task)
        message.news.set()
        if message.showing is None or message.showing.done():
            message.showing = self.background.start(self._show(message))

    async def _show(self, message: _Message) -> None:
        """Publish the message and its changes until nothing is left to report."""
        try:
            if not message.is_found:
                await self._find(message)
            while message.first is not None:
                message.news.clear()
                told, text = self._told(message, message.first)
                is_news = told.is_live if message.said is None else text != message.said
                if is_news:
                    await self._say(message, message.first, text)
                    await asyncio.sleep(self.every_s)
                elif told.grows_at_ms:
                    await wait_at_most(message.news, max(told.grows_at_ms - self.clock.now_ms(), 0) / 1000)
                else:
                    return
        except (BusUnavailable, StoreUnavailable) as error:
            _log.warning("status.unsaid", message=message.id, reason=str(error))

    async def _find(self, message: _Message) -> None:
        """Go on where another process, or an earlier run of the turn, had to leave off."""
        await asyncio.sleep(self.gather_s)
        committed = await retry_until_available(
            lambda: self.store.outbox.committed(message.id), RetryPolicy(for_s=limits.STATUS_INSIST_S)
        )
        if committed is not None:
            message.first, message.said, message.heading = committed, committed.text, heading_of(committed.text)
            for task in await self.store.tasks.tasks_of_turn(message.turn_id):
                if self._has_line(task) and task.mode is message.mode:
                    message.learn(task)
            _, text = self._told(message, committed)
            if await self.store.outbox.committed(_edit_id(committed, text)) is not None:
                message.said = text
        message.is_found = True

    def _told(self, message: _Message, first: Reply) -> tuple[StatusText, CleanText]:
        """Compose what there is to tell, and its text as it is shown."""
        told = status_text(
            sorted(message.tasks.values(), key=lambda task: (task.created_at_ms, task.id)),
            words_for(first.language),
            now_ms=self.clock.now_ms(),
            waits_after_ms=round(self.waits_after_s * 1000),
            own_max=limits.STATUS_LINES_MAX,
        )
        text = f"{message.heading}\n{told.text}" if message.heading and told.text else told.text
        return told, self.scrubber.for_chat(str(first.key)).scrub(text)

    async def _say(self, message: _Message, first: Reply, text: CleanText) -> None:
        reply = replace(first, text=text, created_at_ms=self.clock.now_ms())
        if message.said is not None:
            reply = replace(reply, id=_edit_id(first, text), amends=first.id)
        await self._publish([reply])
        message.said = text

    async def _publish(self, replies: Sequence[Reply]) -> None:
        await retry_until_available(lambda: self.store.outbox.put(replies), RetryPolicy(for_s=limits.STATUS_INSIST_S))
        await retry_until_available(lambda: self.deliveries.publish(replies), RetryPolicy(for_s=limits.STATUS_INSIST_S))


def _edit_id(first: Reply, text: str) -> str:
    return f"{first.id}:{blake2b(text.encode(), digest_size=_STEP_BYTES).hexdigest()}"
