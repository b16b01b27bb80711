"""Access by chat: the people of a turn, the commands of admins, notices of newcomers, the projection for intake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from agent.features.commands import Addressee, CommandRequest, CommandRow, Offer, with_buttons
from agent.limits import LOOK_HOLDS_S, LOOKS_KEPT, MODEL_NOTICE_EVERY_S
from agent.tools.questions import plain_name
from gateway.access import AccessService
from gateway.bounded_dict import BoundedDict
from gateway.bus.access import Access
from gateway.bus.deliveries import Deliveries
from gateway.bus.operator import Operator
from gateway.clients import CHANNEL as PROGRAMS
from gateway.config.access import AccessSettings
from gateway.config.features import WebhookEvent
from gateway.contracts.access import (
    GIVEN,
    AccessPolicy,
    AccessView,
    Admittance,
    Audience,
    BadRule,
    Pairing,
    PlaceApproval,
    PlacePolicy,
    PlaceRule,
    ShownAccess,
    admit,
    least_of,
    levels_of,
    place_named,
    room_of,
)
from gateway.contracts.budgets import LimitRule, said_of
from gateway.contracts.errors import BadSessionKey, BusError, Declined, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, Reply, ReplyKind
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble
from gateway.contracts.sessions import Grant, GrantRole
from gateway.i18n import Words, language_of, sentence, words_for
from gateway.limits import PAIRING_TTL_S, PROJECTION_LOOK_S
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.access import AccessStore
from gateway.tasks import retry_until_available
from gateway.webhooks import NOBODY_TOLD, WebhookEvents

# Who is asking, and where, as the policy of the tools and the commands see it.


@dataclass(frozen=True, slots=True)
class _Look:
    """A person's role and limits as the bus showed them, and until when they may be used without asking again."""

    view: AccessView
    until_s: float


class People:
    """Looks up roles, as the bus shows them, and places, as SQL has them. A person without a decision, whom
    intake let in, is a guest.

    A turn asks whether somebody is blocked when it begins, before each call and before its commit. Each time it knows
    which projection the bus shows by then; what is kept of that one need not be asked for again. The roles and limits
    that the turn asks for in between are those of the last look, for LOOK_HOLDS_S."""

    def __init__(self, access: Access, book: AccessStore, policy: AccessPolicy, clock: Clock) -> None:
        self._access = access
        self._book = book
        self._policy = policy
        self._clock = clock
        self._looks: BoundedDict[SessionKey, _Look] = BoundedDict(LOOKS_KEPT)
        self._noted: dict[SessionKey, str] = {}

    async def is_admitted(self, user: SessionKey, spoken_in: Sequence[str] = ()) -> bool:
        """Tell whether intake would let this user's words in now, in a direct message or in this place."""
        levels = await self._levels(user.channel, spoken_in)
        view = await retry_until_available(lambda: self._access.view(user, levels))
        place = self._policy.place(levels, view.places)
        return admit(user, view.granted, self._policy, place) is Admittance.ADMITTED

    async def role_of(self, user: SessionKey, shown: ShownAccess | None = None) -> GrantRole:
        """Return the role of one user (an owner key), by the projection that is `shown` now, if that is known; an
        unknown role word counts as no role (fail closed)."""
        if user in self._policy.admins:
            self._looks.pop(user, None)  # later answers about this person must be of this moment, too
            return GrantRole.ADMIN
        return self._role(user, await self._look(user, shown))

    async def limits_of(self, user: SessionKey) -> tuple[GrantRole, LimitRule]:
        """Return the role of one user, and what was decided about the limits of that user or role, both of
        one moment."""
        view = await self._last_look(user)
        role = self._role(user, view)
        return role, said_of(user, role, view.limits)

    async def _last_look(self, user: SessionKey) -> AccessView:
        look = self._looks.get(user)
        return look.view if look and self._clock.monotonic_s() < look.until_s else await self._look(user)

    async def _look(self, user: SessionKey, shown: ShownAccess | None = None) -> AccessView:
        view = await retry_until_available(lambda: self._access.view(user, shown=shown))
        self._looks[user] = _Look(view, self._clock.monotonic_s() + LOOK_HOLDS_S)
        return view

    def _role(self, user: SessionKey, view: AccessView) -> GrantRole:
        return self._policy.role_of(user, view.granted) or GrantRole.GUEST

    def has_admin(self, messages: Sequence[InboundMessage]) -> bool:
        """Tell whether an admin by configuration wrote any of these, whom nobody can block."""
        return any(message.author in self._policy.admins for message in messages)

    async def blocked_authors(self, messages: Sequence[InboundMessage], shown: ShownAccess | None) -> frozenset[str]:
        """Return the ids of the messages whose authors have been blocked since they wrote them, by the projection that
        is `shown` now."""
        authors = dict.fromkeys(message.author for message in messages)
        blocked = {author for author in authors if await self.role_of(author, shown) is GrantRole.BLOCKED}
        return frozenset(message.id for message in messages if message.author in blocked)

    async def least_among(self, authors: Sequence[SessionKey]) -> tuple[SessionKey, GrantRole]:
        """Return the person with the least role of all `authors`, of several the last one, and that role: nobody
        borrows another's."""
        roles = {author: self._role(author, await self._last_look(author)) for author in authors}
        least = least_of(roles.values())
        return next(author for author in reversed(roles) if roles[author] is least), least

    async def place_of(self, message: InboundMessage) -> PlacePolicy:
        """Return the policy of the place where this was said."""
        if not message.spoken_in:
            return PlacePolicy()
        levels = await self._levels(message.key.channel, message.spoken_in, message.realm)
        return self._policy.place(levels, await retry_until_available(self._book.place_rules))

    async def _levels(self, channel: str, place: Sequence[str], realm: str = "") -> tuple[SessionKey, ...]:
        """List the names of a place, from the widest to the narrowest. A message from a schedule or a sub-agent does
        not say to which server or workspace its place belongs; an earlier message of a person there did, and that was
        kept."""
        if not place:
            return ()
        chat = SessionKey(channel, "", tuple(place[:1]))
        if realm and self._noted.get(chat) != realm:
            await retry_until_available(lambda: self._book.note_realm(chat, realm))
            self._noted[chat] = realm
        known = realm or self._noted.get(chat, "") or await retry_until_available(lambda: self._book.realm_of(chat))
        return levels_of(channel, known, place)


async def words_of_author(message: InboundMessage, store: Store) -> Words:
    """Return the texts in the language of the author; where that is unknown, of the person who speaks on the lane."""
    language = language_of(message)
    return Words(language) if language is not None else await _words_on(message.key, store)


async def _words_on(lane: SessionKey, store: Store) -> Words:
    session = await store.sessions.current(lane)
    return words_for(session.language if session is not None else "")


_PRIVATELY: Final = sentence("That names people: ask me in a direct message.")
_PLACE_FORMS: Final = sentence(
    "Write `/place`, then what shall be different here: `everybody`, `members`, `admins` or `nobody`; `guests on` or "
    "`guests off`; `tools a,b` or `tools none`; `profile NAME`; `roles ID,ID`, of which strangers need one, or `roles "
    "any`; `ask TOOL`, which takes back what was approved for good; or `reset`. Another place may come first, such "
    "as `telegram:-100456`, or `server`."
)
ROLE_NAMES: Final = {
    GrantRole.GUEST: sentence("guest"),
    GrantRole.MEMBER: sentence("member"),
    GrantRole.ADMIN: sentence("admin"),
    GrantRole.BLOCKED: sentence("blocked"),
}
_SHOWN_MAX: Final = 50  # more than anybody reads in a chat; `trivet access list` shows all

_Run = Callable[[CommandRequest], Awaitable[str]]


def access_commands(keeper: AccessService) -> tuple[CommandRow, ...]:
    """Return the command rows, in the order of /help."""
    commands = _Commands(keeper)
    return (
        CommandRow("pair", _refusing(commands.pair)),
        CommandRow("role", _refusing(commands.role)),
        CommandRow("block", _refusing(commands.block)),
        CommandRow("unblock", _refusing(commands.unblock)),
        CommandRow("place", _refusing(commands.place)),
    )


class _Commands:
    """The commands of admins."""

    def __init__(self, keeper: AccessService) -> None:
        self._keeper = keeper

    async def pair(self, asked: CommandRequest) -> str:
        match asked.argument.split():
            case [] | ["list"]:
                if not asked.message.is_private:
                    return asked.words.say(_PRIVATELY)
                words = asked.words
                lines = [
                    f"- **{each.code}**: {plain_name(each.name, words)} ({each.owner})"
                    for each in await retry_until_available(self._keeper.bus.pairings)
                ]
                if not lines:
                    return words.say("Nobody waits to be let in.")
                hint = words.say("Write `/pair CODE` or `/pair deny CODE`.")
                return "\n".join((words.say("Who waits to be let in:"), "", *lines, "", hint))
            case ["deny", code]:
                owner = await retry_until_available(lambda: self._keeper.deny(code, actor=_actor(asked)))
                return asked.words.say("{person} was turned down.", person=_named(asked, owner))
            case [code, *rest] if not rest or rest[0] in GIVEN:
                role = GrantRole(rest[0]) if rest else GrantRole.MEMBER
                who, turn = _actor(asked), asked.turn_id
                paired = await retry_until_available(
                    lambda: self._keeper.pair(code, role, actor=who, by=who, taker=turn)
                )
                return asked.words.say(
                    "{person} is {role} now and was told so.",
                    person=_named(asked, paired.owner),
                    role=asked.words.say(ROLE_NAMES[role]),
                )
        return asked.words.say("Write `/pair CODE`, `/pair CODE guest`, `/pair list` or `/pair deny CODE`.")

    async def role(self, asked: CommandRequest) -> str:
        match asked.argument.split():
            case [person, word] if word in GIVEN:
                owner = SessionKey.parse(person).owner
                await retry_until_available(lambda: self._keeper.grant(owner, GrantRole(word), actor=_actor(asked)))
                return asked.words.say(
                    "{person} is {role} now.", person=str(owner), role=asked.words.say(ROLE_NAMES[GrantRole(word)])
                )
            case [person, "none"]:
                return await _taken_back(asked, self._keeper, person)
        return asked.words.say(
            "Write /role, a person by key, such as `telegram:123456789`, and `guest`, `member`, `admin` or `none`."
        )

    async def block(self, asked: CommandRequest) -> str:
        person, _, reason = asked.argument.partition(" ")
        if person in ("", "list"):
            return await _blocked(asked, self._keeper)
        owner = SessionKey.parse(person).owner
        await retry_until_available(
            lambda: self._keeper.grant(owner, GrantRole.BLOCKED, actor=_actor(asked), reason=reason)
        )
        return asked.words.say(
            "{person} is blocked: I do not hear the next message any more. /unblock takes it back.", person=str(owner)
        )

    async def unblock(self, asked: CommandRequest) -> str:
        if not asked.argument:
            return asked.words.say("Write /unblock and a person by key, such as `telegram:123456789`.")
        return await _taken_back(asked, self._keeper, asked.argument)

    async def place(self, asked: CommandRequest) -> str:
        where, words = _place(asked)
        if asked.message.is_private and words[:1] in ([], ["ask"]):
            where = where or room_of(asked.message.author, ())
        if where is None:
            return asked.words.say(_PLACE_FORMS)
        match words:
            case []:
                return f"{await self._shown(asked, where)}\n\n{asked.words.say(_PLACE_FORMS)}"
            case ["ask", tool]:
                await retry_until_available(lambda: self._keeper.ask_again(where, tool, actor=_actor(asked)))
            case _:
                before = (await retry_until_available(self._keeper.book.place_rules)).get(where, PlaceRule())
                after = PlaceRule() if words == ["reset"] else _rule(words).over(before)
                await retry_until_available(lambda: self._keeper.set_place(where, after, actor=_actor(asked)))
        return await self._shown(asked, where)

    async def _shown(self, asked: CommandRequest, where: SessionKey) -> str:
        """Show which rules hold in a place, in the words of the command, and which tools need no approval there."""
        rule = (await retry_until_available(self._keeper.book.place_rules)).get(where, PlaceRule())
        found = [each for each in await retry_until_available(self._keeper.book.place_approvals) if each.place == where]
        lines = [f"- `{each.tool}`: {_approval_text(each, asked.words)}" for each in found[-_SHOWN_MAX:]]
        told = asked.words.say(
            "{place}: {rule}.", place=str(where), rule=asked.words.say("as configured") if rule.is_empty else str(rule)
        )
        return "\n".join((told, "", asked.words.say("Approved there for good:"), "", *lines)) if lines else told


def _refusing(run: _Run) -> _Run:
    """Wrap a command so that a refusal becomes its answer."""

    async def refusing(asked: CommandRequest) -> str:
        try:
            return await run(asked)
        except BadSessionKey:
            return asked.words.say(
                "I need a person by key, such as `telegram:123456789`, or a place such as `telegram:-100456`."
            )
        except Declined as error:
            return declined_text(error, asked.words)

    return refusing


def declined_text(error: Declined, words: Words) -> str:
    """Say in a whole sentence why a request is declined."""
    why = words.say(error.own, **error.values)
    return words.say("{reason}.", reason=f"{why[:1].upper()}{why[1:]}")


async def _taken_back(asked: CommandRequest, keeper: AccessService, whom: str) -> str:
    owner = SessionKey.parse(whom).owner
    was_decided = await retry_until_available(lambda: keeper.revoke(owner, actor=_actor(asked)))
    words, person = asked.words, str(owner)
    if was_decided:
        told = words.say("Nothing is decided about {person} any more.", person=person)
    else:
        told = words.say("Nothing was decided about {person}.", person=person)
    through = await retry_until_available(lambda: keeper.blocked_through(owner))
    if through is None:
        return told
    if asked.message.is_private:
        held = words.say("The same person is blocked as {other}, and that holds for both.", other=str(through))
    else:
        held = words.say("A linked account is blocked, and that holds for both: ask me in a direct message which.")
    return f"{told} {held}"


async def _blocked(asked: CommandRequest, keeper: AccessService) -> str:
    if not asked.message.is_private:
        return asked.words.say(_PRIVATELY)
    found = [grant for grant in await retry_until_available(keeper.book.grants) if grant.role is GrantRole.BLOCKED]
    lines = list(map(_line, found[-_SHOWN_MAX:]))
    if not lines:
        return asked.words.say("Nobody is blocked.")
    return "\n".join((asked.words.say("Who is blocked:"), "", *lines))


def _line(grant: Grant) -> str:
    return f"- {grant.key}{f': {grant.reason}' if grant.reason else ''}"


def _actor(asked: CommandRequest) -> str:
    return str(asked.message.author)


def _named(asked: CommandRequest, owner: SessionKey) -> str:
    """Name a person; where others read along, without the id."""
    return str(owner) if asked.message.is_private else asked.words.say("The person")


def _place(asked: CommandRequest) -> tuple[SessionKey | None, list[str]]:
    """Read which place is meant, and which words change its rule. None: there is no such place here."""
    words, message = asked.argument.split(), asked.message
    if words and ":" in words[0]:
        return place_named(words[0]), words[1:]
    levels = levels_of(message.key.channel, message.realm, message.spoken_in[:1])
    if words[:1] == ["server"]:
        return (levels[0] if len(levels) > 1 else None), words[1:]
    return (levels[-1] if levels else None), words[1:] if words[:1] == ["here"] else words


def _approval_text(approval: PlaceApproval, words: Words) -> str:
    if approval.digest:
        return words.say("one call of it, for the role `{role}` and above", role=approval.role.value)
    return words.say("every call, for the role `{role}` and above", role=approval.role.value)


def _rule(words: Iterable[str]) -> PlaceRule:
    """Read a rule from these words, one after the other. Raises `BadRule`."""
    rule, left = PlaceRule(), iter(words)
    for word in left:
        if word in set(Audience):
            said = PlaceRule(audience=Audience(word))
        elif word in ("guests", "tools", "profile", "roles"):
            said = _said(word, next(left, ""))
        else:
            raise BadRule("I do not know {word}: /place says what is possible", word=repr(word[:40]))
        rule = said.over(rule)
    return rule.checked()


def _said(name: str, word: str) -> PlaceRule:
    match name, word:
        case "guests", "on" | "off":
            return PlaceRule(lets_guests=word == "on")
        case "tools", "none":
            return PlaceRule(tools=())
        case "tools", str() if word:
            return PlaceRule(tools=tuple(filter(None, word.split(","))))
        case "profile", str() if word:
            return PlaceRule(profile=word)
        case "roles", "any":
            return PlaceRule(roles=())
        case "roles", str() if word:
            return PlaceRule(roles=tuple(filter(None, word.split(","))))
    raise BadRule("I do not know {word}: /place says what is possible", word=repr(f"{name} {word}"[:40]))


# Sees to it that intake judges by what operators decided, and that the bus says whose it is, whatever it has lost.


_log = structlog.get_logger(__name__)


async def showing_access(keeper: AccessService, keep_named: Callable[[], Awaitable[None]]) -> None:
    """Repeat the projection of the access rules to the bus until cancelled. Each change is projected at once by its
    author, so this only repairs what went wrong. Raises `ConfigError` when the bus belongs to another installation by
    now."""
    while True:
        try:
            await keep_named()
            await keeper.keep_projected()
        except (BusError, StoreError) as error:
            _log.warning("access.not_shown", reason=str(error))
        await asyncio.sleep(PROJECTION_LOOK_S)


# Tells admins who asks to be let in, with two buttons, and which model does not answer for want of a key or of
# credit: where each of them wrote to us last in a direct message.
#
# Every process looks; the reply is named after the code, or the model and the hour, and the admin, so that it is
# committed and shown once. What one admin presses takes the buttons of the others away.


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


@dataclass(eq=False, repr=False)
class AdminNotices:
    """Tells webhooks of each stranger with a code, once, and admins: those whom `access.notify` names, all where it
    names nobody; and all of each model that does not answer, once an hour while it is asked in vain."""

    access: Access
    deliveries: Deliveries
    operator: Operator
    store: Store
    settings: AccessSettings
    scrubber: Scrubber
    clock: Clock
    events: WebhookEvents = NOBODY_TOLD
    _told: frozenset[str] = field(init=False, default_factory=frozenset)
    _told_of_models: frozenset[str] = field(init=False, default_factory=frozenset)

    def __post_init__(self) -> None:
        self._notified = tuple(dict.fromkeys(admin.owner for admin in self.settings.notify))

    async def watch(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.look()
            except (BusError, StoreError) as error:
                _log.warning("admins.not_told", reason=str(error))
            await asyncio.sleep(PROJECTION_LOOK_S)

    async def look(self) -> None:
        """Tell of what this process has not told of."""
        waiting = await self.access.pairings()
        if new := [pairing for pairing in waiting if pairing.code not in self._told]:
            admins = await self._admins()
            for pairing in new:
                event, at_ms = WebhookEvent.STRANGER_ASKS, pairing.asked_at_ms
                if told := self.events.tell(event, pairing.code, pairing.owner, pairing.name, at_ms=at_ms):
                    await self.store.outbox.put(told)
                    await self.deliveries.publish(told)
                if pairing.owner not in admins:  # who became admin otherwise waits for nobody
                    for admin in self._notified or admins:
                        await self._tell_of_stranger(admin, pairing)
        self._told = frozenset(pairing.code for pairing in waiting)
        await self._look_for_models()

    async def _look_for_models(self) -> None:
        troubles = {_notice_of(trouble): trouble for trouble in await self.operator.model_troubles()}
        if new := troubles.keys() - self._told_of_models:
            admins = await self._admins()
            for notice in sorted(new):
                for admin in admins:
                    await self._tell_of_model(admin, notice, troubles[notice])
        self._told_of_models = frozenset(troubles)

    async def _admins(self) -> Sequence[SessionKey]:
        """List the admins of the configuration, and people who were made one since; no program reads notices."""
        granted = {grant.key.owner: grant.role.value for grant in await self.store.access.grants()}
        known = (*(admin.owner for admin in self.settings.policy.admins), *granted)
        people = [who for who in dict.fromkeys(known) if who.channel != PROGRAMS]
        return [who for who in people if self.settings.policy.role_of(who, granted.get(who)) is GrantRole.ADMIN]

    async def _tell_of_stranger(self, admin: SessionKey, pairing: Pairing) -> None:
        words = await _words_on(admin, self.store)
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
        words = await _words_on(admin, self.store)
        text = words.say(_FAULTS[trouble.fault], model=trouble.model, provider=trouble.provider)
        await self._tell(admin, notice, text, words)

    async def _tell(
        self, admin: SessionKey, notice: str, text: str, words: Words, offers: Sequence[Offer] = ()
    ) -> None:
        address = await self.store.outbox.last_address(admin)
        if address is None:  # an admin who never wrote to us has no known place for it
            return
        reply = Reply(
            id=f"{notice}:{admin}",
            turn_id="",
            key=admin,
            address=address,
            text=self.scrubber.for_chat(str(admin)).scrub(text),
            kind=ReplyKind.NOTICE,
            created_at_ms=self.clock.now_ms(),
            language=words.language.value,
        )
        addressee = Addressee(admin, is_private=True, group=notice)
        offered, buttons = with_buttons(reply, offers, addressee, self.scrubber.scrub, self.clock, ttl_s=PAIRING_TTL_S)
        if await self.store.buttons.offer(offered, buttons):
            await self.deliveries.publish([offered])


def _notice_of(trouble: ModelTrouble) -> str:
    """Name the notice about a failing model, so that it is sent once in each interval in which the model was asked in
    vain."""
    return f"model:{trouble.model}:{trouble.fault.value}:{trouble.at_ms // (MODEL_NOTICE_EVERY_S * 1000)}"
