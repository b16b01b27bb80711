"""Tells admins who asks to be let in, with two buttons, and which model does not answer for want of a key or of credit:
where each of them wrote to us last in a direct message.

Every process looks; the reply is named after the code, or the model and the hour, and the admin, so that it is
committed and shown once. What one admin presses takes the buttons of the others away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from agent.limits import MODEL_NOTICE_EVERY_S
from agent.offering import Meant, Offer, offering
from agent.questions import plain_name
from gateway.bus.access import Access
from gateway.bus.deliveries import Deliveries
from gateway.bus.operator import Operator
from gateway.config.access import Access as AccessSettings
from gateway.contracts.access import Pairing
from gateway.contracts.entries import GrantRole
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble, Scrubber
from gateway.limits import PAIRING_TTL_S, PROJECTION_LOOK_S
from gateway.store import Store
from gateway.words import Words, sentence, words_for

_log = structlog.get_logger(__name__)
_LET_IN: Final = sentence("Let in")
_REFUSE: Final = sentence("Refuse")
_FAULTS: Final = {
    ModelFault.KEY: sentence(
        "The model `{model}` does not answer: {provider} does not accept its key. Once the key is right and the agent "
        "has been started again, `trivet doctor` tries it."
    ),
    ModelFault.QUOTA: sentence(
        "The model `{model}` does not answer: its quota or credit at {provider} is used up. Once there is more, "
        "`trivet doctor` tries it."
    ),
}


class Announcing:
    """Tells those whom `access.notify` names of each stranger with a code, once; and all admins of each model that does
    not answer, once an hour while it is asked in vain."""

    def __init__(
        self,
        access: Access,
        deliveries: Deliveries,
        operator: Operator,
        store: Store,
        settings: AccessSettings,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._access = access
        self._deliveries = deliveries
        self._operator = operator
        self._store = store
        self._policy = settings.policy
        self._notified = tuple(dict.fromkeys(admin.owner for admin in settings.notify))
        self._scrubber = scrubber
        self._clock = clock
        self._told: frozenset[str] = frozenset()
        self._told_of_models: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except (BusError, StoreError) as error:
                _log.warning("admins.not_told", reason=str(error))
            await asyncio.sleep(PROJECTION_LOOK_S)

    async def look(self) -> None:
        """Tell of what this process has not told of."""
        if self._notified:
            await self._look_for_strangers()
        await self._look_for_models()

    async def _look_for_strangers(self) -> None:
        waiting = await self._access.pairings()
        for pairing in waiting:
            if pairing.code not in self._told:
                for admin in self._notified:
                    await self._tell_of_stranger(admin, pairing)
        self._told = frozenset(pairing.code for pairing in waiting)

    async def _look_for_models(self) -> None:
        troubles = {_notice_of(trouble): trouble for trouble in await self._operator.model_troubles()}
        if new := troubles.keys() - self._told_of_models:
            admins = await self._admins()
            for notice in sorted(new):
                for admin in admins:
                    await self._tell_of_model(admin, notice, troubles[notice])
        self._told_of_models = frozenset(troubles)

    async def _admins(self) -> Sequence[SessionKey]:
        """Those of the configuration, and those who were made one since."""
        granted = {grant.key.owner: grant.role.value for grant in await self._store.access.grants()}
        known = (*(admin.owner for admin in self._policy.admins), *granted)
        return [who for who in dict.fromkeys(known) if self._policy.role_of(who, granted.get(who)) is GrantRole.ADMIN]

    async def _tell_of_stranger(self, admin: SessionKey, pairing: Pairing) -> None:
        words = await self._words_of(admin)
        text = words.say(
            "Somebody asks to be let in: **{name}** (`{person}`). `/pair {code}` lets in, `/pair deny {code}` refuses.",
            name=plain_name(pairing.name, words),
            person=str(pairing.owner),
            code=pairing.code,
        )
        offers = (
            Offer(words.say(_LET_IN), f"/pair {pairing.code}"),
            Offer(words.say(_REFUSE), f"/pair deny {pairing.code}"),
        )
        await self._tell(admin, f"pairing:{pairing.code}", text, words, offers)

    async def _tell_of_model(self, admin: SessionKey, notice: str, trouble: ModelTrouble) -> None:
        words = await self._words_of(admin)
        text = words.say(_FAULTS[trouble.fault], model=trouble.model, provider=trouble.provider)
        await self._tell(admin, notice, text, words)

    async def _words_of(self, admin: SessionKey) -> Words:
        session = await self._store.sessions.current(admin)
        return words_for(session.language if session is not None else "")

    async def _tell(
        self, admin: SessionKey, notice: str, text: str, words: Words, offers: Sequence[Offer] = ()
    ) -> None:
        address = await self._store.outbox.last_address(admin)
        if address is None:  # nobody who never wrote to us has a place for it
            return
        reply = Reply(
            id=f"{notice}:{admin}",
            turn_id="",
            key=admin,
            address=address,
            text=self._scrubber.for_chat(str(admin)).scrub(text),
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )
        meant = Meant(admin, is_private=True, group=notice)
        offered, buttons = offering(reply, offers, meant, self._scrubber.scrub, self._clock, ttl_s=PAIRING_TTL_S)
        if await self._store.buttons.offer(offered, buttons):
            await self._deliveries.publish([offered])


def _notice_of(trouble: ModelTrouble) -> str:
    """The name of what is told of it: another one each hour in which it was asked in vain."""
    return f"model:{trouble.model}:{trouble.fault.value}:{trouble.at_ms // (MODEL_NOTICE_EVERY_S * 1000)}"
