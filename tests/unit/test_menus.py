"""What the menus of commands say, and how a command that was chosen from Discord's is read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from channels.core.message import Addressing, Ignored, Incoming
from channels.discord.adapter import commands, say_the_same
from channels.discord.normalize import (
    DiscordIdentity,
    DiscordInteraction,
    DiscordTarget,
    make_target,
    normalize_invocation,
    parse_target,
)
from channels.telegram.adapter import menus_for
from gateway.contracts.commands import COMMANDS, Command, offered
from gateway.contracts.ids import SessionScope
from gateway.contracts.sessions import GrantRole

ME = DiscordIdentity(user_id="42")
NAME = re.compile(r"[a-z0-9_]{1,32}")
OPTION = re.compile(r"[-_'\w]{1,32}")
CHOSEN = DiscordInteraction(
    "1574085916476047360",
    "77",
    "123",
    "Ada",
    "/title Soup",
    created_at_ms=1_000,
    guild_id="9",
    parent_id="70",
    locale="de",
)


def read(invocation: DiscordInteraction) -> Incoming:
    incoming = normalize_invocation(invocation, ME)
    assert isinstance(incoming, Incoming), incoming
    return incoming


def test_every_command_fits_into_every_menu() -> None:
    """Names as Telegram takes them, texts as Discord does; no platform takes more than a hundred commands."""
    assert len(COMMANDS) <= 100
    assert all(NAME.fullmatch(spec.name) for spec in COMMANDS)
    for menu in menus_for([1]):
        assert all(1 <= len(about) <= 256 for _, about in menu.rows)
    for command in commands():
        for option in command["options"]:
            names = [option["name"], *option["name_localizations"].values()]
            assert all(OPTION.fullmatch(name) and name == name.lower() for name in names), names
        for shape in (command, *command["options"]):
            texts = [shape["description"], *shape["description_localizations"].values()]
            assert all(1 <= len(text) <= 100 for text in texts), texts


def test_only_admins_are_offered_what_is_theirs() -> None:
    assert all(spec.role is not GrantRole.ADMIN for spec in offered())
    assert any(spec.role is GrantRole.ADMIN for spec in offered(is_admin=True))
    assert not [spec for spec in offered(is_private=False) if spec.only_private]


def as_registered(command: dict[str, Any]) -> dict[str, Any]:
    """The way Discord gives it back: with fields of its own, without what is empty or false."""
    kept = {name: value for name, value in command.items() if value not in ({}, [], None, False)}
    options = [{name: value for name, value in o.items() if value is not False} for o in command["options"]]
    own = {"id": "1", "version": "2", "application_id": "3", "nsfw": False, "dm_permission": True}
    return kept | own | ({"options": options} if options else {})


def test_what_discord_adds_or_leaves_out_is_no_change() -> None:
    known = [as_registered(command) for command in reversed(commands())]
    assert say_the_same(known, commands())


@pytest.mark.parametrize(
    "change",
    [
        {"description": "something else"},
        {"description_localizations": {"de": "anders"}},
        {"options": []},
        {"contexts": [0]},
        {"default_member_permissions": "8"},
    ],
)
def test_any_change_of_ours_is_one(change: dict[str, Any]) -> None:
    title = next(command for command in commands() if command["name"] == "title")
    others = [command for command in commands() if command["name"] != "title"]
    assert not say_the_same([*others, as_registered(title) | change], commands())
    assert not say_the_same(others, commands())


def test_a_chosen_command_reads_as_if_it_had_been_typed_there() -> None:
    """Its id is what a repeated one is recognised by."""
    incoming = read(CHOSEN)
    assert str(incoming.key(SessionScope.PLACE)) == "discord:123/70/77"
    assert (incoming.text, incoming.command) == ("/title Soup", Command("title", "Soup"))
    assert (incoming.addressing, incoming.is_private, incoming.realm) == (Addressing.COMMAND, False, "9")
    assert incoming.id == "discord:42:interaction:1574085916476047360"
    assert incoming.sent_at_ms == 1_000
    assert incoming.language == "de"


@pytest.mark.parametrize(
    ("changes", "is_aside"),
    [({}, True), ({"said": "/plan Soup"}, False), ({"guild_id": "", "parent_id": "", "is_direct": True}, False)],
)
def test_the_answer_is_for_the_one_who_asks_unless_it_concerns_all(changes: dict[str, Any], is_aside: bool) -> None:
    target = parse_target(read(replace(CHOSEN, **changes)).address.target)
    assert target == DiscordTarget("77", link=CHOSEN.id, is_aside=is_aside)
    assert parse_target(make_target(target)) == target


@pytest.mark.parametrize(
    "changes", [{"id": "x"}, {"channel_id": ""}, {"user_id": "me"}, {"is_bot": True}, {"said": "/? Soup"}]
)
def test_what_is_no_command_of_a_person_is_ignored(changes: dict[str, Any]) -> None:
    assert isinstance(normalize_invocation(replace(CHOSEN, **changes), ME), Ignored)
