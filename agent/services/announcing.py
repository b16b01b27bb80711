"""Tells admins who asks to be let in, with two buttons: where each of them wrote to us last in a direct message.

Every process looks; the reply is named after the code and the admin, so that it is committed and shown once. What one
admin presses takes the buttons of the others away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from agent.offering import Meant, Offer, offering
from agent.questions import plain_name
from gateway.contracts.access import Pairing
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import AccessBus, Clock, LaneBus, Scrubber, Store
from gateway.limits import PAIRING_TTL_S, PROJECTION_LOOK_S
from gateway.words import Words, sentence, words_for

_log = structlog.get_logger(__name__)
_LET_IN: Final = sentence("Let in")
_REFUSE: Final = sentence("Refuse")


class Announcing:
    """Looks for strangers with a code and tells each of `admins` (owner keys) once."""

    def __init__(
        self,
        access: AccessBus,
        lanes: LaneBus,
        store: Store,
        admins: Sequence[SessionKey],
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._access = access
        self._lanes = lanes
        self._store = store
        self._admins = tuple(dict.fromkeys(admin.owner for admin in admins))
        self._scrubber = scrubber
        self._clock = clock
        self._told: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Until cancelled; at once without admins."""
        while self._admins:
            try:
                await self.look()
            except (BusError, StoreError) as error:
                _log.warning("strangers.not_announced", reason=str(error))
            await asyncio.sleep(PROJECTION_LOOK_S)

    async def look(self) -> None:
        """Tell of those whom this process has not told of."""
        waiting = await self._access.pairings()
        for pairing in waiting:
            if pairing.code not in self._told:
                for admin in self._admins:
                    await self._tell(admin, pairing)
        self._told = frozenset(pairing.code for pairing in waiting)

    async def _tell(self, admin: SessionKey, pairing: Pairing) -> None:
        address = await self._store.last_address(admin)
        if address is None:  # he has never written to us, so there is no place for it
            return
        session = await self._store.current_session(admin)
        words = words_for(session.language if session is not None else "")
        reply = self._reply(admin, address, pairing, words)
        offers = (
            Offer(words.say(_LET_IN), f"/pair {pairing.code}"),
            Offer(words.say(_REFUSE), f"/pair deny {pairing.code}"),
        )
        meant = Meant(admin, is_private=True, group=f"pairing:{pairing.code}")
        offered, buttons = offering(reply, offers, meant, self._scrubber.scrub, self._clock, ttl_s=PAIRING_TTL_S)
        if await self._store.buttons.offer(offered, buttons):
            await self._lanes.republish([offered])

    def _reply(self, admin: SessionKey, address: ReplyAddress, pairing: Pairing, words: Words) -> Reply:
        text = words.say(
            "Somebody asks to be let in: **{name}** (`{person}`). `/pair {code}` lets in, `/pair deny {code}` refuses.",
            name=plain_name(pairing.name, words),
            person=str(pairing.owner),
            code=pairing.code,
        )
        return Reply(
            id=f"pairing:{pairing.code}:{admin}",
            turn_id="",
            key=admin,
            address=address,
            text=self._scrubber.for_chat(str(admin)).scrub(text),
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )
