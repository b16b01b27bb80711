"""Admission: decides whether a message may enter, and tells people why theirs may not.

The decision is pure (`gateway.contracts.access`); the operators' decisions are read from their projection on the
bus."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from channels.core import notices
from channels.core.message import Addressing, Incoming
from channels.core.sanitize import clean_name
from gateway.bounded_dict import BoundedDict
from gateway.bus.access import Access
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.access import AccessPolicy, AccessView, Admittance, Pairing, Rate, ShownAccess, admit, levels_of
from gateway.contracts.budgets import said_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import GrantRole
from gateway.i18n import Words, words_for
from gateway.limits import PAIRING_CODE_CHARS, PAIRING_PENDING_MAX, PAIRING_TTL_S, RATED_AUTHORS_MAX
from gateway.scrub import Scrubber

log = logging.getLogger(__name__)

# Other bots in the rooms we are in: which of them we hear, and for how long.
#
# Two that answer each other never stop by themselves. So a bot that the operator did not name is never heard
# (`normalize`), no account of ours hears another one, and of all others a room hears a few messages until a person
# speaks there again.


class BotLoopGuard:
    """A guard against endless talk between our account and other bots. Raises `BusUnavailable`."""

    def __init__(self, places: Places) -> None:
        self._places = places

    async def hears(self, incoming: Incoming) -> bool:
        """Tell whether a message is to be taken in. A message that comes again counts once; a person's message always
        is taken in."""
        room = ":".join((platform_of(incoming.channel), *(incoming.place or (incoming.user_id,))))
        if not incoming.is_bot:
            await self._places.person_spoke(room)
            return True
        is_heard = await self._places.hear_bot(room, incoming.id, speaker=incoming.user_id)
        if not is_heard:
            log.info("%s: bot %s is not heard until a person speaks in %s", incoming.channel, incoming.user_id, room)
        return is_heard


def platform_of(channel: str) -> str:
    """Return a channel's platform: `telegram` for `telegram.support`. Rooms are the same for all accounts there."""
    return channel.partition(".")[0]


RateOf = Callable[[GrantRole], Rate]


def unlimited(_role: GrantRole) -> Rate:
    """Allow any rate."""
    return Rate()


@dataclass(frozen=True, slots=True)
class AuthorRates:
    """The rates of one person: messages and commands."""

    messages: Rate
    commands: Rate


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement on a message, and the projection that it rests on; None where none was needed. `is_admin`: its
    author is one."""

    admittance: Admittance
    shown: ShownAccess | None
    is_admin: bool = False

    @property
    def is_admitted(self) -> bool:
        return self.admittance is Admittance.ADMITTED


class AdmissionControl:
    """The decision about each message that comes to one channel."""

    def __init__(self, access: Access, policy: AccessPolicy, rate_of: RateOf, command_rate_of: RateOf) -> None:
        self._access = access
        self._policy = policy
        self._rate_of = rate_of
        self._command_rate_of = command_rate_of
        self._paces: BoundedDict[SessionKey, AuthorRates] = BoundedDict(RATED_AUTHORS_MAX)
        self._albums: BoundedDict[str, None] = BoundedDict(RATED_AUTHORS_MAX)

    async def judge(self, incoming: Incoming, *, lane: SessionKey | None = None) -> Judgement:
        """Decide what happens to the message. Raises `BusUnavailable` where nobody can say who is blocked; an admin by
        configuration is let in even then.

        With the `lane` to which the message goes if it is admitted, a kept view will do: the lane refuses what was
        judged by an old one. Nobody is turned away by a kept view."""
        owner = SessionKey(incoming.channel, incoming.user_id)
        levels = levels_of(incoming.channel, incoming.realm, incoming.place)

        def admittance_by(view: AccessView) -> Admittance:
            place = self._policy.place(levels, view.places)
            return admit(owner, view.granted, self._policy, place, incoming.roles)

        view = None if lane is None else self._access.kept(owner, levels, lane=lane)
        if owner in self._policy.admins:
            view = AccessView()
        elif view is None or admittance_by(view) is not Admittance.ADMITTED:
            view = await self._access.view(owner, levels)
        admittance = admittance_by(view)
        if admittance is Admittance.ADMITTED:
            role = self._policy.role_of(owner, view.granted) or GrantRole.GUEST
            configured, decided = self._rate_of(role), said_of(owner, role, view.limits).per_minute
            messages = configured if decided is None else replace(configured, per_minute=decided)
            self._paces[owner] = AuthorRates(messages, self._command_rate_of(role))
        else:
            self._paces.pop(owner, None)
        return Judgement(admittance, view.shown, self._policy.role_of(owner, view.granted) is GrantRole.ADMIN)

    def rate_of(self, incoming: Incoming) -> Rate:
        """Return how fast the author of an admitted message may write. An album is one message, however many parts it
        has."""
        if incoming.album_id and _album(incoming) in self._albums:
            return Rate()
        return self._pace_of(incoming).messages

    def command_rate_of(self, incoming: Incoming) -> Rate:
        """Return how fast somebody may give commands and press buttons; a person who is not admitted has a guest's
        rate."""
        return self._pace_of(incoming).commands

    def _pace_of(self, incoming: Incoming) -> AuthorRates:
        known = self._paces.get(SessionKey(incoming.channel, incoming.user_id))
        return known or AuthorRates(self._rate_of(GrantRole.GUEST), self._command_rate_of(GrantRole.GUEST))

    def taken(self, incoming: Incoming) -> None:
        """Note that the message is on the bus."""
        if incoming.album_id:
            self._albums[_album(incoming)] = None


def _album(incoming: Incoming) -> str:
    return f"{incoming.user_id}:{incoming.album_id}"


# Tell people that they are turned away and why, in the place where they spoke, at most once a minute, and strangers
# their code.

NOTICE_EVERY_MS: Final = 60_000
TOLD_MAX: Final = 4096  # sentences of the last minute; one that is forgotten may be said twice in it


class RejectionNotifier:
    """The voice that tells people of one channel why their message was not taken."""

    def __init__(
        self, access: Access, outbound: Deliveries, scrubber: Scrubber, clock: Clock, *, language: str = ""
    ) -> None:
        """Speak `language` to everybody, if it is given."""
        self._access = access
        self._outbound = outbound
        self._scrubber = scrubber
        self._clock = clock
        self._language = language
        self._told_at_ms: BoundedDict[str, int] = BoundedDict(TOLD_MAX)
        self._at_once: dict[str, CleanText] = {}  # for those who chose a command, by its id

    def words(self, incoming: Incoming) -> Words:
        return words_for(self._language or incoming.language, incoming.text)

    async def tell(
        self, incoming: Incoming, key: SessionKey, topic: str, sentence: str, *, is_once: bool = False
    ) -> None:
        """Say a sentence of ours, unless it was said within a minute, or ever if it `is_once`: this process remembers
        the former, and the sentence's id prevents a repetition for a redelivered message. The connection that brought
        a menu command tells its author itself, and a bot is told nothing: it would answer."""
        if incoming.is_bot:
            return
        if incoming.id in self._at_once:
            self._at_once[incoming.id] = self._scrubber.for_chat(str(key)).scrub(sentence)
            return
        what, at_ms = f"{topic}:{key}:{incoming.address.lane}", incoming.sent_at_ms or self._clock.now_ms()
        if abs(at_ms - self._told_at_ms.get(what, -NOTICE_EVERY_MS)) < NOTICE_EVERY_MS:
            return
        mark = what if is_once else f"{what}:{at_ms // NOTICE_EVERY_MS}"
        await self._outbound.publish([self._notice(incoming, key, mark, sentence)])
        self._told_at_ms[what] = at_ms

    @contextlib.contextmanager
    def at_once(self, chosen: Incoming) -> Iterator[Callable[[], CleanText]]:
        """Keep, as long as the block lasts, the text for the person who chose this command, and yield a function that
        returns it."""
        nothing = self._at_once[chosen.id] = literal_text("")
        try:
            yield lambda: self._at_once.get(chosen.id, nothing)  # it may have come twice
        finally:
            self._at_once.pop(chosen.id, None)

    async def turn_away(self, incoming: Incoming, admittance: Admittance) -> None:
        """Turn a message away: in silence for the blocked and where nobody is heard; with a sentence for others, except
        in a thread that we are in and where the bot was not called."""
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
        """Tell strangers their code; the bus keeps with it the welcome that they are sent here when they are let in."""
        words, code = self.words(incoming), self._clock.code(PAIRING_CODE_CHARS)
        name = clean_name(incoming.author_name, self._scrubber)
        welcome = self._notice(incoming, owner, f"welcome:{code}", words.say(notices.WELCOME))
        asked = await self._access.ask_pairing(
            Pairing(code, owner, name, welcome, self._clock.now_ms()),
            ttl_s=PAIRING_TTL_S,
            pending_max=PAIRING_PENDING_MAX,
        )
        waited_ms = PAIRING_TTL_S * 1000 - asked.left_ms
        if asked.code and asked.code != code and waited_ms >= NOTICE_EVERY_MS:
            sentence = notices.still_waiting(asked.code, waited_ms, asked.left_ms, words)
            await self.tell(incoming, owner, f"waits:{asked.code}", sentence, is_once=True)
        elif asked.code:
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
