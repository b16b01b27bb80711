"""`trivet pair`, `trivet access` and `trivet clients`: who may talk to the agent, and where; people and programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from gateway.access import AccessService
from gateway.clients import CHANNEL, new_client, token_of
from gateway.clock import SystemClock
from gateway.config import client_key
from gateway.contracts.access import GIVEN, Audience, PlaceApproval, PlaceRule, place_named
from gateway.contracts.budgets import LimitRule, limited_named, rule_changed
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Grant, GrantRole
from gateway.limits import PAIRING_TTL_S
from gateway.ops.cli.common import (
    ConfigOption,
    JsonOption,
    decide,
    lists,
    loaded_and_warned,
    say,
    say_document,
    say_rows,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T")
_ACTOR: Final = "cli"
_NUMBER: Final = "a number, none for no limit, default for what the configuration says."
_ROLE_FORM: Final = "guest|member|admin"
_FORMS: Final = "write `trivet pair CODE`, `trivet pair CODE admin`, `trivet pair list` or `trivet pair deny CODE`"
_WORDS: Final = frozenset({"list", "deny", "approve"})

app = typer.Typer(help="Who may talk to the agent, and where.")

PersonArgument = Annotated[str, typer.Argument(help="A session key of the person, such as telegram:123456789.")]
PlaceArgument = Annotated[
    str, typer.Argument(help="A chat, channel, server or workspace, such as telegram:-100456 or discord:987.")
]


def pair(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar=f"CODE [{_ROLE_FORM}] | list | deny CODE",
            help="The code that the bot gave to the person, and what that person may be: member if nothing is said.",
        ),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let in the person who was given CODE, or turn that person down, or list who waits. With `trivet pair CODE admin`
    the person becomes an admin."""
    match words:
        case ["list"]:
            _run(config, _documented_pairings if as_json else _list_pairings)
        case ["deny", code]:
            say(f"{_run(config, lambda keeper: keeper.deny(code, actor=_ACTOR))} was turned down.")
        case ["approve", code, *rest] | [code, *rest] if code not in _WORDS and len(rest) <= 1:
            role, taker = _role(rest, "trivet pair ABCD2345 admin"), SystemClock().new_id()
            paired = _run(config, lambda keeper: keeper.pair(code, role, actor=_ACTOR, by=_ACTOR, taker=taker))
            say(f"{paired.owner} is {role.value} now.")
        case _:
            raise ConfigError(_FORMS)


@lists(app)
def list_access(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show what was decided about people and places, besides what the configuration says."""
    _run(config, _documented if as_json else _list)


@app.command("grant")
def grant(
    person: PersonArgument,
    word: Annotated[
        str, typer.Argument(metavar=_ROLE_FORM, help="What the person may be: member if nothing is said.")
    ] = GrantRole.MEMBER.value,
    config: ConfigOption = None,
) -> None:
    """Let a person in without a code, or give a person another role: `trivet access grant telegram:123456789 admin`."""
    owner, role = SessionKey.parse(person).owner, _role([word], "trivet access grant telegram:123456789 admin")
    _run(config, lambda keeper: keeper.grant(owner, role, actor=_ACTOR))
    say(f"{owner} is {role.value} now.")


def _role(words: Sequence[str], example: str) -> GrantRole:
    """Return the role that somebody is to have; a member's where none is named. Raises `ConfigError`."""
    word = words[0] if words else GrantRole.MEMBER
    if word not in GIVEN:
        raise ConfigError(f"{word[:40]!r} is no role to give; there are {', '.join(GIVEN)}, as in `{example}`")
    return GrantRole(word)


@app.command("block")
def block(
    person: PersonArgument,
    reason: Annotated[str, typer.Argument(help="Why; only admins see it.")] = "",
    config: ConfigOption = None,
) -> None:
    """Do not listen to a person any more, from the next message on."""
    owner = SessionKey.parse(person).owner
    _run(config, lambda keeper: keeper.grant(owner, GrantRole.BLOCKED, actor=_ACTOR, reason=reason))
    say(f"{owner} is blocked now.")


@app.command("revoke")
@app.command("unblock")
def revoke(person: PersonArgument, config: ConfigOption = None) -> None:
    """Take back what was decided about a person."""
    owner = SessionKey.parse(person).owner
    was_decided = _run(config, lambda keeper: keeper.revoke(owner, actor=_ACTOR))
    say(f"Nothing is decided about {owner} any more." if was_decided else f"Nothing was decided about {owner}.")
    through = _run(config, lambda keeper: keeper.blocked_through(owner))
    if through is not None:
        say(f"The same person is blocked as {through}, and that holds for both.")


@app.command("place")
def place(
    where: PlaceArgument,
    audience: Annotated[Audience | None, typer.Option(help="Whom the agent listens to there.")] = None,
    guests: Annotated[bool | None, typer.Option(help="Strangers may talk to it there, as guests.")] = None,
    tools: Annotated[str | None, typer.Option(help="Names with commas between; empty for none.")] = None,
    profile: Annotated[str | None, typer.Option(help="Who it is there, until somebody chooses.")] = None,
    roles: Annotated[
        str | None, typer.Option(help="Ids of a server's roles: strangers with one may talk to it; empty for any.")
    ] = None,
    ask: Annotated[
        str | None, typer.Option(help="A tool: take back what an admin approved of it there for good.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Take back what was decided before.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show or change what is different in one place. What is not named stays as it is."""
    name = place_named(where)
    rule = PlaceRule(audience, guests, _listed(tools), profile, _listed(roles)).checked()

    async def change(keeper: AccessService) -> tuple[PlaceRule, Sequence[PlaceApproval]]:
        before = PlaceRule() if reset else (await keeper.book.place_rules()).get(name, PlaceRule())
        after = rule.over(before)
        if reset or not rule.is_empty:
            await keeper.set_place(name, after, actor=_ACTOR)
        if ask is not None:
            await keeper.ask_again(name, ask, actor=_ACTOR)
        return after, [each for each in await keeper.book.place_approvals() if each.place == name]

    holds, approved = _run(config, change)
    say(f"{name}: {holds}")
    for each in approved:
        say(_approval_line(each))


def _listed(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(filter(None, map(str.strip, names.split(","))))


@app.command("limits")
def limits(
    whom: Annotated[str, typer.Argument(metavar="[WHOM]", help="A person by key, or guest, member, admin.")] = "",
    tokens: Annotated[str | None, typer.Option(help=f"Of one UTC day: {_NUMBER}")] = None,
    usd: Annotated[str | None, typer.Option(help=f"Dollars of one UTC day: {_NUMBER}")] = None,
    turns: Annotated[str | None, typer.Option(help=f"Of one UTC day: {_NUMBER}")] = None,
    rate: Annotated[str | None, typer.Option(help=f"Messages a minute: {_NUMBER}")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Take back what was decided before.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show or change what limits a person or a role, besides what the configuration says. What is not named stays as it
    is."""
    said = {"tokens": tokens, "usd": usd, "turns": turns, "rate": rate}
    words = [word for name, number in said.items() if number is not None for word in (name, number)]
    if not whom:
        if words or reset:
            raise ConfigError("say whom it is for: a person by key, or guest, member, admin")
        _run(config, _list_limits)
        return
    limited = limited_named(whom)

    async def change(keeper: AccessService) -> LimitRule:
        def changed(before: LimitRule) -> LimitRule:
            return rule_changed(LimitRule() if reset else before, words)

        if reset or words:
            await keeper.change_limits(limited, changed, actor=_ACTOR)
        return (await keeper.book.limit_rules()).get(limited, LimitRule())

    say(f"{limited}: {_run(config, change)}")


def _run(config: Path | None, act: Callable[[AccessService], Awaitable[T]]) -> T:
    return decide(loaded_and_warned(config), act)


async def _list(keeper: AccessService) -> None:
    grants, places, limited = (
        await keeper.book.grants(),
        await keeper.book.place_rules(),
        await keeper.book.limit_rules(),
    )
    approved = await keeper.book.place_approvals()
    for decided in grants:
        say(_grant_line(decided))
    for name, rule in places.items():
        say(f"{name!s:<32}  {rule}")
    for each in approved:
        say(_approval_line(each))
    for whom, limit in limited.items():
        say(f"{whom!s:<32}  {limit}")
    if not (grants or places or approved or limited):
        say("Nothing was decided yet: what the configuration says holds.")


async def _documented(keeper: AccessService) -> None:
    """Print the same as one document: a list for each kind of decision."""
    from gateway.ops.admin import access as api  # noqa: PLC0415 - start-up

    book = keeper.book
    lists: dict[str, Iterable[BaseModel]] = {
        "grants": [api.GrantView.of(each) for each in await book.grants()],
        "places": [api.PlaceView.of(rule, place=place) for place, rule in (await book.place_rules()).items()],
        "approvals": [api.ApprovalView.of(each) for each in await book.place_approvals()],
        "limits": [api.LimitsView.of(rule, whom=whom) for whom, rule in (await book.limit_rules()).items()],
    }
    say_document({name: [row.model_dump(mode="json") for row in rows] for name, rows in lists.items()})


async def _documented_pairings(keeper: AccessService) -> None:
    from gateway.ops.admin.access import PairingView  # noqa: PLC0415 - start-up

    say_document([PairingView.of(each).model_dump(mode="json") for each in await keeper.bus.pairings()])


async def _list_limits(keeper: AccessService) -> None:
    found = await keeper.book.limit_rules()
    for whom, limit in found.items():
        say(f"{whom!s:<32}  {limit}")
    if not found:
        say("Nothing was decided about limits: what the configuration says holds.")


async def _list_pairings(keeper: AccessService) -> None:
    waiting = await keeper.bus.pairings()
    for pairing in waiting:
        until = _day(pairing.asked_at_ms + PAIRING_TTL_S * 1000)
        say(f"{pairing.code}  {pairing.owner!s:<32}  {pairing.name}  until {until}")
    if not waiting:
        say("Nobody waits to be let in.")


def _grant_line(decided: Grant) -> str:
    why = f": {decided.reason}" if decided.reason else ""
    return f"{decided.key!s:<32}  {decided.role.value:<8}  {_day(decided.created_at_ms)}  by {decided.granted_by}{why}"


def _approval_line(approval: PlaceApproval) -> str:
    return f"{approval.place!s:<32}  {approval}  {_day(approval.approved_at_ms)}  by {approval.approved_by}"


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%MZ}"


# `trivet clients`: programs that may talk to the agent over HTTP.


clients = typer.Typer(help="Programs that may talk to the agent over HTTP.")

ClientArgument = Annotated[str, typer.Argument(help="A client as `trivet clients` lists it, such as shop-4f2a9c.")]


@lists(clients)
def list_clients(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the clients and what each may do."""
    from gateway.ops.admin.access import GrantView  # noqa: PLC0415 - start-up

    grants = decide(loaded_and_warned(config), lambda keeper: keeper.book.grants())
    clients = [grant for grant in grants if grant.key.channel == CHANNEL]
    if as_json:
        say_rows(map(GrantView.of, clients))
        return
    for grant in clients:
        say(f"{grant.key.user:<40}  {grant.role.value}")
    if not clients:
        say("There is no client yet: `trivet clients add NAME` makes one.")


@clients.command("add")
def add_client(
    name: Annotated[str, typer.Argument(help="Lower case letters, digits and underscores, such as shop.")],
    role: Annotated[str, typer.Option(metavar="|".join(GIVEN), help="What it may do.")] = GrantRole.MEMBER.value,
    config: ConfigOption = None,
) -> None:
    """Let a program in and print its token, which is shown this once."""
    if role not in GIVEN:
        raise ConfigError(f"{role[:40]!r} is no role to give; there are {', '.join(GIVEN)}")
    loaded = loaded_and_warned(config)
    client, granted = new_client(name), GrantRole(role)
    decide(loaded, lambda keeper: keeper.grant(client, granted, actor=_ACTOR))
    say(f"{client} is {granted.value} now. Its token, which is not shown again:")
    typer.echo(token_of(client_key(loaded.settings), client))
    if not loaded.settings.channels.api.is_enabled:
        say("Nobody listens to it yet: set channels.api.enabled = true.", err=True)


@clients.command("remove")
def remove_client(client: ClientArgument, config: ConfigOption = None) -> None:
    """Listen to a client no more, from its next request on. Its token is worth nothing for good."""
    key = SessionKey.parse(client if ":" in client else f"{CHANNEL}:{client}")
    if not decide(loaded_and_warned(config), lambda keeper: keeper.revoke(key, actor=_ACTOR)):
        raise ConfigError(f"there is no client {client[:80]!r}: `trivet clients` lists them")
    say(f"{key} may not talk to the agent any more.")
