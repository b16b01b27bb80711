"""Commands about the conversation itself: /new, /title, /sessions, /compact, and those that find the lane idle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.compacting.compactor import Compactor
from agent.limits import SESSIONS_SHOWN
from agent.offering import Offer
from agent.sentences import status_text, stopped_sentence, telling_of_ended
from agent.subagents.runs import SubagentStopper
from agent.titles.titling import wanted_title
from gateway.bus.lanes import Lanes
from gateway.contracts.entries import OpenSession, Session, SetTitle
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store
from gateway.words import Words, sentence

Left = Callable[[SessionKey], Awaitable[object]]
"""Told that the conversation of a lane is over: what was kept for it has to go, too."""

_OLDER: Final = sentence("Older ones")
_PAGES_MAX: Final = 10_000  # no database is asked to skip more


def conversation_commands(
    store: Store,
    compactor: Compactor,
    lanes: Lanes,
    scrubber: Scrubber,
    ending: SubagentStopper,
    clock: Clock,
    *,
    left: Sequence[Left] = (),
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""
    commands = _Commands(store, compactor, lanes, scrubber, ending, clock, left)
    return (
        CommandRow("new", commands.new),
        CommandRow("stop", commands.stop),
        CommandRow("title", commands.title),
        CommandRow("sessions", commands.sessions),
        CommandRow("status", commands.status),
        CommandRow("where", commands.status),
        CommandRow("compact", commands.compact),
    )


class _Commands:
    """What people may say about the conversation they are in, and about their others."""

    def __init__(
        self,
        store: Store,
        compactor: Compactor,
        lanes: Lanes,
        scrubber: Scrubber,
        ending: SubagentStopper,
        clock: Clock,
        left: Sequence[Left],
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._lanes = lanes
        self._scrubber = scrubber
        self._ending = ending
        self._clock = clock
        self._left = left

    async def new(self, asked: Asked) -> Done:
        for tell in self._left:
            await tell(asked.session.key)
        ended = await self._ending.ask(asked.session.key)
        begun = asked.words.say("A new conversation has begun.")
        return Done(telling_of_ended(begun, ended, asked.words), (OpenSession(),))

    async def stop(self, asked: Asked) -> Done:
        # The control lane stops turns; a /stop that comes this way finds its own lane idle.
        ended = await self._ending.end(asked.session.key)
        return Done(stopped_sentence(asked.words, was_running=False, dropped=0, ended=ended))

    async def title(self, asked: Asked) -> Done:
        words = asked.words
        if not asked.argument:
            return Done(words.say("This conversation is called **{title}**.", title=asked.session.title))
        wanted = wanted_title(asked.argument, self._scrubber.for_chat(str(asked.session.key)).scrub)
        if not wanted:
            return Done(words.say("A title needs at least one character that can be seen."))
        word = words.say("This conversation is now called **{title}**.", title=wanted)
        return Done(word, (SetTitle(wanted),), title=wanted)

    async def sessions(self, asked: Asked) -> Done:
        page, words = _page(asked.argument), asked.words
        offset = (page - 1) * SESSIONS_SHOWN
        found = await self._store.sessions.page(key=asked.session.key, limit=SESSIONS_SHOWN + 1, offset=offset)
        shown, is_more = found[:SESSIONS_SHOWN], len(found) > SESSIONS_SHOWN
        if not shown:
            return Done(words.say("You have no older conversations."))
        lines = "\n".join(_session_line(session, words) for session in shown)
        hints: list[str] = [words.say("`/resume NUMBER` goes on with one of them.")]
        offers = [Offer(_name(each), f"/resume {each.number}") for each in shown if not each.is_current]
        if is_more:
            hints.append(words.say("`/sessions {page}` lists older ones.", page=str(page + 1)))
            offers.append(Offer(words.say(_OLDER), f"/sessions {page + 1}"))
        heading = words.say("Your conversations, newest first:")
        return Done("\n\n".join((heading, lines, *hints)), offers=tuple(offers))

    async def status(self, asked: Asked) -> Done:
        waiting, _ = await self._lanes.depth(asked.session.key)
        # This very command is the turn that runs and the message that waits.
        tasks = await self._store.tasks.tasks_of_session(asked.session.id)
        waiting = max(waiting - 1, 0)
        now_ms = self._clock.now_ms()
        text = status_text(asked.session, asked.words, waiting=waiting, is_running=False, now_ms=now_ms, tasks=tasks)
        return Done(text)

    async def compact(self, asked: Asked) -> Done:
        view = await self._store.transcript.view(asked.session.id)
        focus = self._scrubber.for_chat(str(asked.session.key)).scrub(asked.argument) if asked.argument else None
        done = await self._compactor.compact(
            asked.session, view, fence=asked.fence, budget=None, permit=asked.permit, focus=focus
        )
        if done.has_failed:
            return Done(asked.words.say("I could not make a summary that is shorter; nothing has changed."))
        if not done.messages:
            return Done(asked.words.say("There is nothing to compact."))
        return Done(asked.words.count("Compacted {count} message.", "Compacted {count} messages.", done.messages))


def _page(argument: str) -> int:
    """The page of the list that is asked for; what is no number asks for the first."""
    is_number = argument.isdecimal() and argument.isascii() and len(argument) < len(str(_PAGES_MAX))
    return max(int(argument), 1) if is_number else 1


def _name(session: Session) -> str:
    return f"{session.number}. {session.title}"


def _session_line(session: Session, words: Words) -> str:
    count = words.count("{count} message", "{count} messages", session.message_count)
    mark = " " + words.say("(current)") if session.is_current else ""
    # Not "2. …" and "1. …" as a list of Markdown: that counts upwards from its first number.
    return f"- **{session.number}.** {session.title}, {count}{mark}"
