"""Commands of admins about who may speak: /pair, /role, /block, /unblock, /place. `agent.commands.table` keeps them
from everybody else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.questions import plain_name
from gateway.contracts.access import GIVEN, Audience, BadRule, PlaceApproval, PlaceRule, levels_of, place_named, room_of
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.errors import BadSessionKey, Declined
from gateway.contracts.ids import SessionKey
from gateway.doorkeeper import Doorkeeper
from gateway.retry import retry_until_available
from gateway.words import Words, sentence

_PRIVATELY: Final = sentence("That names people: ask me in a direct message.")
_PLACE_FORMS: Final = sentence(
    "Write `/place`, then what shall be different here: `everybody`, `members`, `admins` or `nobody`; `guests on` or "
    "`guests off`; `tools a,b` or `tools none`; `profile NAME`; `roles ID,ID`, of which strangers need one, or `roles "
    "any`; `ask TOOL`, which takes back what was approved for good; or `reset`. In front may stand another place, such "
    "as `telegram:-100456`, or `server`."
)
ROLE_NAMES: Final = {
    GrantRole.GUEST: sentence("guest"),
    GrantRole.MEMBER: sentence("member"),
    GrantRole.ADMIN: sentence("admin"),
    GrantRole.BLOCKED: sentence("blocked"),
}
_SHOWN_MAX: Final = 50  # more than anybody reads in a chat; `trivet access list` shows all

_Run = Callable[[Asked], Awaitable[Done]]


def access_commands(keeper: Doorkeeper) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""
    commands = _Commands(keeper)
    return (
        CommandRow("pair", _refusing(commands.pair)),
        CommandRow("role", _refusing(commands.role)),
        CommandRow("block", _refusing(commands.block)),
        CommandRow("unblock", _refusing(commands.unblock)),
        CommandRow("place", _refusing(commands.place)),
    )


class _Commands:
    """What admins may say."""

    def __init__(self, keeper: Doorkeeper) -> None:
        self._keeper = keeper

    async def pair(self, asked: Asked) -> Done:
        match asked.argument.split():
            case [] | ["list"]:
                return Done(await _waiting(asked, self._keeper))
            case ["deny", code]:
                owner = await retry_until_available(lambda: self._keeper.deny(code, actor=_actor(asked)))
                return Done(asked.words.say("{person} was turned down.", person=_named(asked, owner)))
            case [code, *rest] if not rest or rest[0] in GIVEN:
                role = GrantRole(rest[0]) if rest else GrantRole.MEMBER
                who, turn = _actor(asked), asked.turn_id
                paired = await retry_until_available(
                    lambda: self._keeper.pair(code, role, actor=who, by=who, taker=turn)
                )
                return Done(
                    asked.words.say(
                        "{person} is {role} now and was told so.",
                        person=_named(asked, paired.owner),
                        role=asked.words.say(ROLE_NAMES[role]),
                    )
                )
        return Done(asked.words.say("Write `/pair CODE`, `/pair CODE guest`, `/pair list` or `/pair deny CODE`."))

    async def role(self, asked: Asked) -> Done:
        match asked.argument.split():
            case [person, word] if word in GIVEN:
                owner = SessionKey.parse(person).owner
                await retry_until_available(lambda: self._keeper.grant(owner, GrantRole(word), actor=_actor(asked)))
                return Done(
                    asked.words.say(
                        "{person} is {role} now.", person=str(owner), role=asked.words.say(ROLE_NAMES[GrantRole(word)])
                    )
                )
            case [person, "none"]:
                return await _taken_back(asked, self._keeper, person)
        return Done(
            asked.words.say(
                "Write /role, a person by his key, such as `telegram:123456789`, and `guest`, `member`, `admin` or "
                "`none`."
            )
        )

    async def block(self, asked: Asked) -> Done:
        person, _, reason = asked.argument.partition(" ")
        if person in ("", "list"):
            return Done(await _blocked(asked, self._keeper))
        owner = SessionKey.parse(person).owner
        await retry_until_available(
            lambda: self._keeper.grant(owner, GrantRole.BLOCKED, actor=_actor(asked), reason=reason)
        )
        return Done(
            asked.words.say(
                "{person} is blocked: I do not hear the next message any more. /unblock takes it back.",
                person=str(owner),
            )
        )

    async def unblock(self, asked: Asked) -> Done:
        if not asked.argument:
            return Done(asked.words.say("Write /unblock and a person by his key, such as `telegram:123456789`."))
        return await _taken_back(asked, self._keeper, asked.argument)

    async def place(self, asked: Asked) -> Done:
        where, words = _place(asked)
        if asked.message.is_private and words[:1] in ([], ["ask"]):
            where = where or room_of(asked.message.author, ())
        if where is None:
            return Done(asked.words.say(_PLACE_FORMS))
        match words:
            case []:
                return Done(f"{await self._shown(asked, where)}\n\n{asked.words.say(_PLACE_FORMS)}")
            case ["ask", tool]:
                await retry_until_available(lambda: self._keeper.ask_again(where, tool, actor=_actor(asked)))
            case _:
                before = (await retry_until_available(self._keeper.places)).get(where, PlaceRule())
                after = PlaceRule() if words == ["reset"] else _rule(words).over(before)
                await retry_until_available(lambda: self._keeper.set_place(where, after, actor=_actor(asked)))
        return Done(await self._shown(asked, where))

    async def _shown(self, asked: Asked, where: SessionKey) -> str:
        """What holds in a place, in the words that one writes, and what is not asked about there."""
        rule = (await retry_until_available(self._keeper.places)).get(where, PlaceRule())
        found = [each for each in await retry_until_available(self._keeper.approvals) if each.place == where]
        lines = [f"- `{each.tool}`: {_approval_text(each, asked.words)}" for each in found[-_SHOWN_MAX:]]
        told = _rule_text(where, rule, asked.words)
        return "\n".join((told, "", asked.words.say("Approved there for good:"), "", *lines)) if lines else told


def _refusing(run: _Run) -> _Run:
    """What cannot be done is said as it is."""

    async def refusing(asked: Asked) -> Done:
        try:
            return await run(asked)
        except BadSessionKey:
            return Done(
                asked.words.say(
                    "I need a person by his key, such as `telegram:123456789`, or a place such as `telegram:-100456`."
                )
            )
        except Declined as error:
            return Done(declined_text(error, asked.words))

    return refusing


def declined_text(error: Declined, words: Words) -> str:
    """Why something is not done, as a whole sentence."""
    why = words.say(error.own, **error.values)
    return words.say("{reason}.", reason=f"{why[:1].upper()}{why[1:]}")


async def _taken_back(asked: Asked, keeper: Doorkeeper, whom: str) -> Done:
    owner = SessionKey.parse(whom).owner
    was_decided = await retry_until_available(lambda: keeper.revoke(owner, actor=_actor(asked)))
    words, person = asked.words, str(owner)
    if was_decided:
        told = words.say("Nothing is decided about {person} any more.", person=person)
    else:
        told = words.say("Nothing was decided about {person}.", person=person)
    through = await retry_until_available(lambda: keeper.blocked_through(owner))
    if through is None:
        return Done(told)
    if asked.message.is_private:
        held = words.say("The same person is blocked as {other}, and that holds for both.", other=str(through))
    else:
        held = words.say("A linked account is blocked, and that holds for both: ask me in a direct message which.")
    return Done(f"{told} {held}")


async def _waiting(asked: Asked, keeper: Doorkeeper) -> str:
    if not asked.message.is_private:
        return asked.words.say(_PRIVATELY)
    words = asked.words
    lines = [
        f"- **{each.code}**: {plain_name(each.name, words)} ({each.owner})"
        for each in await retry_until_available(keeper.pairings)
    ]
    if not lines:
        return words.say("Nobody waits to be let in.")
    hint = words.say("Write `/pair CODE` or `/pair deny CODE`.")
    return "\n".join((words.say("Who waits to be let in:"), "", *lines, "", hint))


async def _blocked(asked: Asked, keeper: Doorkeeper) -> str:
    if not asked.message.is_private:
        return asked.words.say(_PRIVATELY)
    found = [grant for grant in await retry_until_available(keeper.grants) if grant.role is GrantRole.BLOCKED]
    lines = list(map(_line, found[-_SHOWN_MAX:]))
    if not lines:
        return asked.words.say("Nobody is blocked.")
    return "\n".join((asked.words.say("Who is blocked:"), "", *lines))


def _line(grant: Grant) -> str:
    return f"- {grant.key}{f': {grant.reason}' if grant.reason else ''}"


def _actor(asked: Asked) -> str:
    return str(asked.message.author)


def _named(asked: Asked, owner: SessionKey) -> str:
    """Before others, nobody's id is said."""
    return str(owner) if asked.message.is_private else asked.words.say("The person")


def _place(asked: Asked) -> tuple[SessionKey | None, list[str]]:
    """Which place is meant, and what shall be different there. None: there is no such place here."""
    words, message = asked.argument.split(), asked.message
    if words and ":" in words[0]:
        return place_named(words[0]), words[1:]
    levels = levels_of(message.key.channel, message.realm, message.spoken_in[:1])
    if words[:1] == ["server"]:
        return (levels[0] if len(levels) > 1 else None), words[1:]
    return (levels[-1] if levels else None), words[1:] if words[:1] == ["here"] else words


def _rule_text(place: SessionKey, rule: PlaceRule, words: Words) -> str:
    """What holds there, in the words that one writes."""
    return words.say(
        "{place}: {rule}.", place=str(place), rule=words.say("as configured") if rule.is_empty else str(rule)
    )


def _approval_text(approval: PlaceApproval, words: Words) -> str:
    if approval.digest:
        return words.say("one call of it, for the role `{role}` and above", role=approval.role.value)
    return words.say("every call, for the role `{role}` and above", role=approval.role.value)


def _rule(words: Iterable[str]) -> PlaceRule:
    """What these words say, one after the other. Raises `BadRule`."""
    rule, left = PlaceRule(), iter(words)
    for word in left:
        if word in set(Audience):
            said = PlaceRule(audience=Audience(word))
        elif word in ("guests", "tools", "profile", "roles"):
            said = _said(word, next(left, ""))
        else:
            raise BadRule("I do not know {word}: /place says what may stand there", word=repr(word[:40]))
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
    raise BadRule("I do not know {word}: /place says what may stand there", word=repr(f"{name} {word}"[:40]))
