"""Says to people who type what could stand behind /resume, /model and /agent: what these commands would list.

Every agent process does, beside its control lane: a worker that is busy keeps nobody waiting. What fails is left out;
the client shows nothing then, and what was typed can be sent as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import structlog

from agent.commands.choices import DEFAULT
from agent.limits import SUGGESTED_SESSIONS_MAX, SUGGESTING_PARALLEL_MAX
from agent.models import choosable
from agent.people import People
from agent.profiles import PROFILES
from gateway.bus.access import Suggestions
from gateway.config import Settings
from gateway.contracts.commands import Suggests
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Scrubber
from gateway.contracts.suggestions import Suggestion, Wanted
from gateway.limits import SUGGESTION_CHARS_MAX, SUGGESTIONS_MAX
from gateway.store import Store

_log = structlog.get_logger(__name__)
_WAIT_S: Final = 5.0
_RETRY_S: Final = 0.5


class Suggesting:
    """Answers questions, several at a time."""

    def __init__(self, bus: Suggestions, store: Store, people: People, settings: Settings, scrubber: Scrubber) -> None:
        self._bus = bus
        self._store = store
        self._people = people
        self._models = (*choosable(settings), DEFAULT)
        self._scrubber = scrubber

    async def run(self) -> None:
        """Until cancelled."""
        slots = asyncio.Semaphore(SUGGESTING_PARALLEL_MAX)
        async with asyncio.TaskGroup() as group:
            async for wanted in self._asked(slots):
                group.create_task(self._answer(wanted)).add_done_callback(lambda _: slots.release())

    async def suggestions(self, wanted: Wanted) -> Sequence[Suggestion]:
        """What fits to what was typed, at most SUGGESTIONS_MAX; nothing for one who may not talk to us."""
        if not await self._people.is_admitted(wanted.owner):
            return ()
        match wanted.kind:
            case Suggests.SESSIONS:
                return await self._sessions(wanted)
            case Suggests.MODELS:
                return self._fitting(wanted, ((name, name) for name in self._models))
            case Suggests.PROFILES:
                named = ((f"{profile.name}: {profile.about}", profile.name) for profile in PROFILES.values())
                return self._fitting(wanted, (*named, (DEFAULT, DEFAULT)))
            case Suggests.NOTHING:
                return ()

    async def _asked(self, slots: asyncio.Semaphore) -> AsyncIterator[Wanted]:
        """Each with one of the slots."""
        while True:
            await slots.acquire()
            try:
                while (wanted := await self._bus.wanted(wait_s=_WAIT_S)) is None:
                    pass
            except BusError as error:
                slots.release()
                _log.warning("suggesting.unheard", reason=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                yield wanted

    async def _answer(self, wanted: Wanted) -> None:
        try:
            await self._bus.suggest(wanted, await self.suggestions(wanted))
        except (BusError, StoreError) as error:
            _log.warning("suggesting.failed", kind=wanted.kind, reason=str(error))

    async def _sessions(self, wanted: Wanted) -> Sequence[Suggestion]:
        """Of the lane's own conversations, newest first, as /sessions lists them."""
        found = await self._store.sessions.page(key=wanted.key, limit=SUGGESTED_SESSIONS_MAX)
        return self._fitting(wanted, ((f"{session.number}. {session.title}", str(session.number)) for session in found))

    def _fitting(self, wanted: Wanted, offered: Iterable[tuple[str, str]]) -> Sequence[Suggestion]:
        """Those with the typed words somewhere in what is shown; first those that begin with them."""
        typed = wanted.typed.strip().casefold()
        fitting = [(label, value) for label, value in offered if typed in label.casefold()]
        fitting.sort(key=lambda pair: not pair[1].casefold().startswith(typed))
        scrub = self._scrubber.for_chat(str(wanted.key)).scrub
        return tuple(
            Suggestion(_shown(scrub(label)), scrub(value))
            for label, value in fitting[:SUGGESTIONS_MAX]
            if len(value) <= SUGGESTION_CHARS_MAX
        )


def _shown(label: CleanText) -> CleanText:
    return clipped(label, SUGGESTION_CHARS_MAX)
