"""Commands about the conversation itself: /new, /title, /sessions, /compact, and those that find the lane idle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.compactor import Compactor
from agent.sentences import status_text, stopped_sentence
from agent.subagents.ending import Ending
from agent.titling import wanted_title
from gateway.contracts.entries import OpenSession, Session, SetTitle
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import LaneDepth, Scrubber, Store
from gateway.words import Words

Left = Callable[[SessionKey], Awaitable[object]]
"""Told that the conversation of a lane is over: what was kept for it has to go, too."""

_SESSIONS_SHOWN: Final = 10


def conversation_commands(
    store: Store,
    compactor: Compactor,
    lanes: LaneDepth,
    scrubber: Scrubber,
    ending: Ending,
    *,
    left: Sequence[Left] = (),
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def new(asked: Asked) -> Done:
        for tell in left:
            await tell(asked.session.key)
        await ending.ask(asked.session.key)
        return Done(asked.words.say("A new conversation has begun."), (OpenSession(),))

    async def stop(asked: Asked) -> Done:
        # The control lane stops turns; a /stop that comes this way finds its own lane idle.
        ended = await ending.end(asked.session.key)
        return Done(stopped_sentence(asked.words, was_running=False, dropped=0, ended=ended))

    async def title(asked: Asked) -> Done:
        words = asked.words
        if not asked.argument:
            return Done(words.say("This conversation is called **{title}**.", title=asked.session.title))
        wanted = wanted_title(asked.argument, scrubber.for_chat(str(asked.session.key)).scrub)
        if not wanted:
            return Done(words.say("A title needs at least one character that can be seen."))
        return Done(words.say("This conversation is now called **{title}**.", title=wanted), (SetTitle(wanted),))

    async def sessions(asked: Asked) -> Done:
        found = await store.sessions(key=asked.session.key, limit=_SESSIONS_SHOWN)
        lines = "\n".join(_session_line(session, asked.words) for session in found)
        return Done(asked.words.say("Your conversations, newest first:") + "\n\n" + lines)

    async def status(asked: Asked) -> Done:
        waiting, _ = await lanes.lane_depth(asked.session.key)
        # This very command is the turn that runs and the message that waits.
        tasks = await store.tasks.tasks_of_session(asked.session.id)
        waiting = max(waiting - 1, 0)
        return Done(status_text(asked.session, asked.words, waiting=waiting, is_running=False, tasks=tasks))

    async def compact(asked: Asked) -> Done:
        view = await store.view(asked.session.id)
        focus = scrubber.for_chat(str(asked.session.key)).scrub(asked.argument) if asked.argument else None
        done = await compactor.compact(
            asked.session, view, fence=asked.fence, budget=None, permit=asked.permit, focus=focus
        )
        if done.has_failed:
            return Done(asked.words.say("I could not make a summary that is shorter; nothing has changed."))
        if not done.messages:
            return Done(asked.words.say("There is nothing to compact."))
        return Done(asked.words.count("Compacted {count} message.", "Compacted {count} messages.", done.messages))

    return (
        CommandRow("new", new),
        CommandRow("stop", stop),
        CommandRow("title", title),
        CommandRow("sessions", sessions),
        CommandRow("status", status),
        CommandRow("where", status),
        CommandRow("compact", compact),
    )


def _session_line(session: Session, words: Words) -> str:
    count = words.count("{count} message", "{count} messages", session.message_count)
    mark = " " + words.say("(current)") if session.is_current else ""
    return f"{session.number}. {session.title}, {count}{mark}"
