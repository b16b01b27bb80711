"""Commands about sessions, answers, models and profiles, and their suggestions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import structlog

from agent import limits
from agent.features.access import People
from agent.features.commands import CommandReply, CommandRequest, CommandRow, Converse, Offer, Outcome
from agent.features.titles import wanted_title
from agent.models.selection import Models, choosable
from agent.prompts.library import DEFAULT_PROFILE, PROFILES, Profile
from agent.prompts.workspace import WorkspaceFiles
from agent.runtime.compaction import Compactor
from agent.subagents.runs import SubagentStopper
from agent.texts import PricesOf, status_text, stopped_sentence, telling_of_ended
from gateway.bus.access import Suggestions
from gateway.bus.lanes import Lanes
from gateway.config import Settings
from gateway.contracts import sessions
from gateway.contracts.commands import Suggestion, SuggestionRequest, Suggests
from gateway.contracts.context_blocks import words_in
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, clipped, joined
from gateway.contracts.ports import Clock
from gateway.i18n import Words, sentence
from gateway.limits import SUGGESTION_CHARS_MAX, SUGGESTIONS_MAX
from gateway.scrub import Scrubber
from gateway.store import Store

Left = Callable[[SessionKey], Awaitable[object]]
"""Told that the conversation of a lane is over: what was kept for it has to go, too."""

_OLDER: Final = sentence("Older ones")
_PAGES_MAX: Final = 10_000  # no database is asked to skip more


@dataclass(eq=False, repr=False)
class ConversationCommands:
    """The commands of people about their current conversation, and about their others."""

    store: Store
    compactor: Compactor
    lanes: Lanes
    scrubber: Scrubber
    ending: SubagentStopper
    clock: Clock
    prices_of: PricesOf
    left: Sequence[Left]

    def rows(self) -> tuple[CommandRow, ...]:
        """Return the command rows, in the order of /help."""
        return (
            CommandRow("new", self.new),
            CommandRow("stop", self.stop),
            CommandRow("title", self.title),
            CommandRow("sessions", self.sessions),
            CommandRow("status", self.status),
            CommandRow("where", self.status),
            CommandRow("compact", self.compact),
        )

    async def new(self, asked: CommandRequest) -> CommandReply:
        for tell in self.left:
            await tell(asked.session.key)
        ended = await self.ending.ask(asked.session.key)
        begun = asked.words.say("A new conversation has begun.")
        return CommandReply(telling_of_ended(begun, ended, asked.words), (sessions.OpenSession(),))

    async def stop(self, asked: CommandRequest) -> str:
        # The control lane stops turns; a /stop that comes this way finds its own lane idle.
        ended = await self.ending.end(asked.session.key)
        return stopped_sentence(asked.words, was_running=False, dropped=0, ended=ended)

    async def title(self, asked: CommandRequest) -> CommandReply | str:
        words = asked.words
        if not asked.argument:
            return words.say("This conversation is called **{title}**.", title=asked.session.title)
        wanted = wanted_title(asked.argument, self.scrubber.for_chat(str(asked.session.key)).scrub)
        if not wanted:
            return words.say("A title needs at least one character that can be seen.")
        word = words.say("This conversation is now called **{title}**.", title=wanted)
        return CommandReply(word, (sessions.SetTitle(wanted),), title=wanted)

    async def sessions(self, asked: CommandRequest) -> CommandReply | str:
        argument = asked.argument
        is_number = argument.isdecimal() and argument.isascii() and len(argument) < len(str(_PAGES_MAX))
        page, words = max(int(argument), 1) if is_number else 1, asked.words
        offset = (page - 1) * limits.SESSIONS_SHOWN
        found = await self.store.sessions.page(key=asked.session.key, limit=limits.SESSIONS_SHOWN + 1, offset=offset)
        shown, is_more = found[: limits.SESSIONS_SHOWN], len(found) > limits.SESSIONS_SHOWN
        if not shown:
            return words.say("You have no older conversations.")
        lines = "\n".join(_session_line(session, words) for session in shown)
        hints: list[str] = [words.say("`/resume NUMBER` goes on with one of them.")]
        offers = [Offer(_name(each), f"/resume {each.number}") for each in shown if not each.is_current]
        if is_more:
            hints.append(words.say("`/sessions {page}` lists older ones.", page=str(page + 1)))
            offers.append(Offer(words.say(_OLDER), f"/sessions {page + 1}"))
        heading = words.say("Your conversations, newest first:")
        return CommandReply("\n\n".join((heading, lines, *hints)), offers=tuple(offers))

    async def status(self, asked: CommandRequest) -> str:
        waiting, _ = await self.lanes.depth(asked.session.key)
        return status_text(
            asked.session,
            asked.words,
            waiting=max(waiting - 1, 0),  # this very command is the turn that runs and the message that waits
            is_running=False,
            now_ms=self.clock.now_ms(),
            prices_of=self.prices_of,
            tasks=await self.store.tasks.tasks_of_session(asked.session.id),
        )

    async def compact(self, asked: CommandRequest) -> str:
        view = await self.store.transcript.view(asked.session.id)
        focus = self.scrubber.for_chat(str(asked.session.key)).scrub(asked.argument) if asked.argument else None
        done = await self.compactor.compact(
            asked.session, view, fence=asked.fence, budget=None, permit=asked.permit, focus=focus
        )
        if done.has_failed:
            return asked.words.say("I could not make a summary that is shorter; nothing has changed.")
        if not done.messages:
            return asked.words.say("There is nothing to compact.")
        return asked.words.count("Compacted {count} message.", "Compacted {count} messages.", done.messages)


def _name(session: sessions.Session) -> str:
    return f"{session.number}. {session.title}"


def _session_line(session: sessions.Session, words: Words) -> str:
    count = words.count("{count} message", "{count} messages", session.message_count)
    mark = " " + words.say("(current)") if session.is_current else ""
    # Not "2. …" and "1. …" as a list of Markdown: that counts upwards from its first number.
    return f"- **{session.number}.** {session.title}, {count}{mark}"


# Commands about which answer, which conversation, which model: /retry, /resume, /model.


DEFAULT: Final = "default"
"""The word that takes a choice of model back."""

_NOBODY_KNOWN: Final = "unknown"
"""The author of what was written in a shared place before authors were kept: the name of nobody, so a guest."""
_TURN: Final = re.compile(r"t_[0-9a-f]{20}")


def choice_commands(store: Store, models: Models, ending: SubagentStopper) -> tuple[CommandRow, ...]:
    """Return the command rows, in the order of /help."""

    async def retry(asked: CommandRequest) -> Outcome | str:
        if _TURN.fullmatch(asked.argument) and not await _is_newest(store, asked):
            return asked.words.say("This conversation has gone on since then. /retry answers its last message.")
        said = await store.transcript.take_for_retry(asked.session.id, fence=asked.fence, key=asked.session.key)
        if not said:
            return asked.words.say(
                "There is nothing to try again: you have not said anything in this conversation yet."
            )
        await ending.end_since(asked.session, said[0].created_at_ms)
        return Converse(
            joined(*(words_in(entry.text) for entry in said), by="\n\n"),
            is_stored=True,
            authors=tuple(_author(entry, asked.session.key) for entry in said),
            has_foreign=any(words_in(entry.text) != entry.text for entry in said),
        )

    async def resume(asked: CommandRequest) -> CommandReply | str:
        words = asked.words
        if not (asked.argument.isdecimal() and asked.argument.isascii()):
            return words.say("Write /resume and the number of a conversation; /sessions lists them.")
        number = int(asked.argument[:10])
        # Only of the same key: nobody resumes another person's. The database knows no larger numbers.
        found = await store.sessions.numbered(asked.session.key, number) if number < 2**31 else None
        if found is None:
            return words.say("You have no conversation {number}. /sessions lists them.", number=number)
        if found.is_current:
            return words.say("You are in conversation {number} already: **{title}**.", number=number, title=found.title)
        ended = await ending.ask(asked.session.key)
        back = words.say("Back in conversation {number}: **{title}**.", number=number, title=found.title)
        title = None if found.title == sessions.UNTITLED else found.title
        return CommandReply(telling_of_ended(back, ended, words), (sessions.ResumeSession(number),), title=title)

    async def model(asked: CommandRequest) -> CommandReply | str:
        wanted, words = asked.argument, asked.words
        if not wanted:
            return CommandReply(
                _shown(asked, models), offers=tuple(Offer(name, f"/model {name}") for name in models.choosable)
            )
        if wanted.lower() == DEFAULT:
            return CommandReply(
                words.say("This conversation uses `{model}` again.", model=models.default), (sessions.SetModel(""),)
            )
        if wanted in models.choosable or (asked.role is sessions.GrantRole.ADMIN and models.is_callable(wanted)):
            return CommandReply(
                words.say("This conversation uses `{model}` from now on.", model=wanted), (sessions.SetModel(wanted),)
            )
        return _not_chosen(asked, models)

    return (CommandRow("retry", retry), CommandRow("resume", resume), CommandRow("model", model))


def _author(entry: sessions.Entry, key: SessionKey) -> SessionKey:
    """Return who wrote a user entry of this lane."""
    if key.user:
        return SessionKey(key.channel, key.user)
    return SessionKey.parse(entry.author) if entry.author else SessionKey(key.channel, _NOBODY_KNOWN)


async def _is_newest(store: Store, asked: CommandRequest) -> bool:
    """Tell whether the turn that a button names is the last of this conversation."""
    newest = await store.transcript.newest_view(asked.session.id, chars_max=1)
    return bool(newest.entries) and newest.entries[-1].turn_id == asked.argument


def _not_chosen(asked: CommandRequest, models: Models) -> str:
    """Say why the model was not chosen: whether it is unknown or only for admins."""
    words = asked.words
    if models.is_callable(asked.argument):
        return words.say("Only an admin may choose that model. You may choose:") + "\n\n" + _listed(models.choosable)
    unknown = words.say("I know no model of that name. You may choose:")
    return "\n\n".join((unknown, _listed(models.choosable), *_of_admins(asked)))


def _shown(asked: CommandRequest, models: Models) -> str:
    current, words = models.of_session(asked.session), asked.words
    used = (
        words.say("This conversation uses `{model}`. You may choose:", model=current)
        if current == asked.session.model
        else words.say("This conversation uses `{model}`, the default. You may choose:", model=current)
    )
    back = words.say("`/model default` takes a choice back.")
    return "\n\n".join((used, _listed(models.choosable), *_of_admins(asked), back))


def _of_admins(asked: CommandRequest) -> tuple[str, ...]:
    if asked.role is not sessions.GrantRole.ADMIN:
        return ()
    return (
        asked.words.say("As an admin you may choose any other model by its name, too, as in `openai/gpt-4o-mini`."),
    )


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"- `{name}`" for name in names)


# /undo: takes the newest turns back.


_NOTHING: Final = sentence("There is nothing to take back.")


def undo_command(store: Store, ending: SubagentStopper) -> CommandRow:
    """Return the row of /undo."""

    async def undo(asked: CommandRequest) -> CommandReply | str:
        wanted, words = asked.argument or "1", asked.words
        if not (
            wanted.isascii() and wanted.isdigit() and len(wanted) < 9 and 1 <= int(wanted) <= limits.UNDO_TURNS_MAX
        ):
            return words.say(
                "Write /undo, or /undo N for the last N exchanges (1 to {most}).", most=limits.UNDO_TURNS_MAX
            )
        turns = await store.transcript.newest_turns(asked.session.id, limit=int(wanted))
        if not turns:
            return words.say(_NOTHING)
        oldest, ended = turns[-1], 0
        for entry in await store.transcript.page(asked.session.id, after_seq=oldest.first_seq - 1, limit=1):
            ended += await ending.end_since(asked.session, entry.created_at_ms)
        what = words.count(
            "I took back this exchange:", "I took back the last {count} exchanges, from here on:", len(turns)
        )
        text = telling_of_ended(f"{what}\n\n> {first_words(oldest.text)}", ended, words)
        return CommandReply(text, (sessions.Undo(oldest.first_seq),))

    return CommandRow("undo", undo)


def first_words(text: CleanText) -> str:
    """Shorten what somebody said to one line."""
    line = " ".join(text.split()) or "(a file)"
    return line if len(line) <= limits.UNDO_SHOWN_CHARS else line[: limits.UNDO_SHOWN_CHARS - 1].rstrip() + "…"


# /agent: which profile the session has.


_BACK: Final = frozenset({"default", "none", "reset"})
_NAME_SHOWN: Final = 40  # characters of a name that nobody knows


def profile_commands(own: WorkspaceFiles) -> tuple[CommandRow, ...]:
    """Return the row of /agent; `own` has the operator's profiles, too."""

    async def agent(asked: CommandRequest) -> CommandReply | str:
        name, words, profiles = asked.argument.lower().replace("-", "_"), asked.words, own.profiles()
        if not name:
            offers = tuple(
                Offer(each, f"/agent {each}") for each in (*profiles, "default") if each != asked.session.profile
            )
            return CommandReply(_list(asked.session.profile, profiles, words), offers=offers)
        if name in _BACK:
            return CommandReply(words.say("I am my usual self again."), (sessions.SetProfile(DEFAULT_PROFILE.name),))
        if name not in profiles:
            near = get_close_matches(name, list(profiles), n=1, cutoff=0.5)
            hint = (
                words.say("Did you mean **{name}**? Then write `/agent {name}`.", name=near[0])
                if near
                else words.say("/agent lists them.")
            )
            return words.say("I know no agent called '{name}'. {hint}", name=name[:_NAME_SHOWN], hint=hint)
        return CommandReply(
            words.say("In this conversation I am now the **{name}**.", name=name), (sessions.SetProfile(name),)
        )

    return (CommandRow("agent", agent),)


def _list(current: str, profiles: Mapping[str, Profile], words: Words) -> str:
    mark = " " + words.say("(current)")
    lines = []
    for name, profile in profiles.items():
        about = words.say(profile.about) if name in PROFILES else profile.about
        lines.append(f"- **{name}**: {about}{mark if name == current else ''}")
    usual = words.say("- **default**: my usual self")
    lines.append(usual if current in profiles else usual + mark)
    return words.say("Choose with `/agent NAME`:") + "\n\n" + "\n".join(lines)


# Suggests to people who type what could follow /resume, /model and /agent: what these commands would list.
#
# Every agent process does, alongside its control lane, so that a busy worker delays nobody. A request that fails gets
# no answer; the client shows nothing then, and the typed text can be sent as it is.


_log = structlog.get_logger(__name__)
_WAIT_S: Final = 5.0
_RETRY_S: Final = 0.5


@dataclass(eq=False, repr=False)
class SuggestionServer:
    """Answers requests for suggestions, several at a time."""

    bus: Suggestions
    store: Store
    people: People
    own: WorkspaceFiles
    settings: Settings
    scrubber: Scrubber

    def __post_init__(self) -> None:
        self._models = (*choosable(self.settings), DEFAULT)

    async def serve(self) -> None:
        """Run until cancelled."""
        slots = asyncio.Semaphore(limits.SUGGESTING_PARALLEL_MAX)
        async with asyncio.TaskGroup() as group:
            async for wanted in self._asked(slots):
                group.create_task(self._answer(wanted)).add_done_callback(lambda _: slots.release())

    async def suggestions(self, wanted: SuggestionRequest) -> Sequence[Suggestion]:
        """Suggest what fits to what was typed, at most SUGGESTIONS_MAX; nothing for a person who may not talk to us."""
        if not await self.people.is_admitted(wanted.owner):
            return ()
        match wanted.kind:
            case Suggests.SESSIONS:
                return await self._sessions(wanted)
            case Suggests.MODELS:
                return self._fitting(wanted, ((name, name) for name in self._models))
            case Suggests.PROFILES:
                named = ((f"{profile.name}: {profile.about}", profile.name) for profile in self.own.profiles().values())
                return self._fitting(wanted, (*named, (DEFAULT, DEFAULT)))
            case Suggests.NOTHING:
                return ()

    async def _asked(self, slots: asyncio.Semaphore) -> AsyncIterator[SuggestionRequest]:
        """Yield each request as soon as one of the slots is free for it."""
        while True:
            await slots.acquire()
            try:
                while (wanted := await self.bus.wanted(wait_s=_WAIT_S)) is None:
                    pass
            except BusError as error:
                slots.release()
                _log.warning("suggesting.unheard", reason=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                yield wanted

    async def _answer(self, wanted: SuggestionRequest) -> None:
        try:
            await self.bus.suggest(wanted, await self.suggestions(wanted))
        except (BusError, StoreError) as error:
            _log.warning("suggesting.failed", kind=wanted.kind, reason=str(error))

    async def _sessions(self, wanted: SuggestionRequest) -> Sequence[Suggestion]:
        """Suggest the lane's own conversations, newest first, as /sessions lists them."""
        found = await self.store.sessions.page(key=wanted.key, limit=limits.SUGGESTED_SESSIONS_MAX)
        return self._fitting(wanted, ((f"{session.number}. {session.title}", str(session.number)) for session in found))

    def _fitting(self, wanted: SuggestionRequest, offered: Iterable[tuple[str, str]]) -> Sequence[Suggestion]:
        """Select the suggestions that show the typed words somewhere; those that begin with them come first."""
        typed = wanted.typed.strip().casefold()
        fitting = [(label, value) for label, value in offered if typed in label.casefold()]
        fitting.sort(key=lambda pair: not pair[1].casefold().startswith(typed))
        scrub = self.scrubber.for_chat(str(wanted.key)).scrub
        return tuple(
            Suggestion(clipped(scrub(label), SUGGESTION_CHARS_MAX), scrub(value))
            for label, value in fitting[:SUGGESTIONS_MAX]
            if len(value) <= SUGGESTION_CHARS_MAX
        )
