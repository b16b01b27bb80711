"""What people are told at the door: that they are turned away and why, in the place where they spoke, at most once a
minute, and strangers their code."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from channels import notices
from channels.inbound.names import clean_name
from channels.normalized import Addressing, Incoming
from gateway.bus.access import Access
from gateway.bus.deliveries import Deliveries
from gateway.contracts.access import Admittance, Pairing
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.limits import PAIRING_CODE_CHARS, PAIRING_PENDING_MAX, PAIRING_TTL_S
from gateway.words import Words, words_for

log = logging.getLogger(__name__)

NOTICE_EVERY_MS: Final = 60_000
TOLD_MAX: Final = 4096  # sentences of the last minute; one that is forgotten may be said twice in it


class Telling:
    """The voice at the door of one channel."""

    def __init__(
        self, access: Access, outbound: Deliveries, scrubber: Scrubber, clock: Clock, *, language: str = ""
    ) -> None:
        """With a `language` everybody is spoken to in that one."""
        self._access = access
        self._outbound = outbound
        self._scrubber = scrubber
        self._clock = clock
        self._language = language
        self._told_at_ms: OrderedDict[str, int] = OrderedDict()
        self._at_once: dict[str, CleanText] = {}  # for those who chose a command, by its id

    def words(self, incoming: Incoming) -> Words:
        return words_for(self._language or incoming.language, incoming.text)

    async def tell(self, incoming: Incoming, key: SessionKey, topic: str, sentence: str) -> None:
        """Say a sentence of ours, unless it was said within a minute: this process remembers that, and its id says it
        of a redelivered message. One who chose a command is told by whoever brought it, and a bot nothing: it would
        answer."""
        if incoming.is_bot:
            return
        if incoming.id in self._at_once:
            self._at_once[incoming.id] = self._scrubber.for_chat(str(key)).scrub(sentence)
            return
        what, at_ms = f"{topic}:{key}:{incoming.address.lane}", incoming.sent_at_ms or self._clock.now_ms()
        if abs(at_ms - self._told_at_ms.get(what, -NOTICE_EVERY_MS)) < NOTICE_EVERY_MS:
            return
        mark = f"{what}:{at_ms // NOTICE_EVERY_MS}"
        await self._outbound.publish([self._notice(incoming, key, mark, sentence)])
        self._told_at_ms[what] = at_ms
        self._told_at_ms.move_to_end(what)
        if len(self._told_at_ms) > TOLD_MAX:
            self._told_at_ms.popitem(last=False)

    @contextlib.contextmanager
    def at_once(self, chosen: Incoming) -> Iterator[Callable[[], CleanText]]:
        """As long as this lasts, what is told to whoever chose this command is kept for the one who asks for it."""
        nothing = self._at_once[chosen.id] = own_words("")
        try:
            yield lambda: self._at_once.get(chosen.id, nothing)  # it may have come twice
        finally:
            self._at_once.pop(chosen.id, None)

    async def turn_away(self, incoming: Incoming, admittance: Admittance) -> None:
        """Silence for the blocked and where nobody is heard; a sentence for others, unless one only spoke in a thread
        we are in."""
        owner = SessionKey(incoming.channel, incoming.user_id)
        if admittance in (Admittance.BLOCKED, Admittance.SILENT_HERE):
            log.info("%s: a message was ignored (%s)", incoming.channel, admittance.value)
        elif incoming.addressing is Addressing.THREAD:
            log.debug("%s: a stranger in a thread of ours was ignored", incoming.channel)
        elif admittance is Admittance.NOT_HERE:
            await self.tell(incoming, owner, "not-here", self.words(incoming).say(notices.NOT_HERE))
        elif admittance is Admittance.CLOSED:
            await self.tell(incoming, owner, "closed", self.words(incoming).say(notices.CLOSED))
        elif incoming.is_private:
            await self._offer_code(incoming, owner)
        else:
            await self.tell(incoming, owner, "stranger", self.words(incoming).say(notices.STRANGER_IN_GROUP))

    async def _offer_code(self, incoming: Incoming, owner: SessionKey) -> None:
        """Tell a stranger his code, behind which lies what he is told here when he is let in."""
        words, code = self.words(incoming), self._clock.code(PAIRING_CODE_CHARS)
        name = clean_name(incoming.author_name, self._scrubber)
        welcome = self._notice(incoming, owner, f"welcome:{code}", words.say(notices.WELCOME))
        asked = await self._access.ask_pairing(
            Pairing(code, owner, name, welcome, self._clock.now_ms()),
            ttl_s=PAIRING_TTL_S,
            pending_max=PAIRING_PENDING_MAX,
        )
        if asked.code:
            await self.tell(incoming, owner, f"pairing:{asked.code}", notices.pairing(asked.code, words))
        elif asked.is_denied:
            await self.tell(incoming, owner, "denied", words.say(notices.CLOSED))
        else:
            await self.tell(incoming, owner, "strangers", words.say(notices.TOO_MANY_STRANGERS))

    def _notice(self, incoming: Incoming, key: SessionKey, mark: str, sentence: str) -> Reply:
        return Reply(
            id=f"notice:{mark}",
            turn_id="",
            key=key,
            address=incoming.address,
            text=self._scrubber.for_chat(str(key)).scrub(sentence),
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
            language=self.words(incoming).language.value,
        )
