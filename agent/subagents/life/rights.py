"""Nobody works for people who may not ask for it any more: they were blocked, they have a lesser role, their place was
closed.

Intake does not take their words from then on, and no turn of theirs begins. What works for them already is ended by
whichever process runs it, within a second, also while it waits; before each call of its own it is asked, too. As with
everything that somebody cancelled, nobody is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from agent.limits import SUBAGENT_RIGHTS_EVERY_S
from agent.people import People
from agent.subagents.life.lives import Lives
from agent.tools.tool import ToolContext
from gateway.contracts.access import least_of
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.reasons import Reason

_log = structlog.get_logger(__name__)


class Rights:
    """Whether a sub-agent may go on: as long as its person might still ask for what it does."""

    def __init__(self, people: People) -> None:
        self._people = people

    async def hold(self, context: ToolContext) -> bool:
        """False once who asked for it was blocked, may not speak there any more, or has a lesser role than then."""
        person = context.asked_by or context.owner
        if not await self._people.is_admitted(person, context.key.place or context.place_ids):
            return False
        return least_of((context.role, await self._people.role_of(person))) is context.role


class Revoking:
    """The share of one process in ending what may not go on. `rights` says it of a sub-agent's context."""

    def __init__(self, lives: Lives, rights: Callable[[ToolContext], Awaitable[bool]]) -> None:
        self._lives = lives
        self._rights = rights

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._lives.some()
            try:
                await self.look()
            except (BusError, StoreError) as error:
                _log.warning("subagents.rights_unknown", reason=str(error))
            await asyncio.sleep(SUBAGENT_RIGHTS_EVERY_S)

    async def look(self) -> None:
        """End what may not go on here."""
        for life in self._lives:
            if not await self._rights(life.charge.context):
                _log.info("subagent.not_allowed", task_id=life.task.id)
                life.end(Reason.NOT_ALLOWED)
