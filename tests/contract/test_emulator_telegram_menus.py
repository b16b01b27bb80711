"""The lists of commands on the emulated Telegram: which of them a client shows, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from telegram import (
    Bot,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeDefault,
)

from channels.emulators.stage import Person
from tests.contract.telegram_parts import Raw, client_of, dm_of, group_of
from tests.parts.platforms import ServedTelegram


@pytest.fixture
async def bot(telegram_emulator: ServedTelegram) -> AsyncIterator[Bot]:
    async for client in client_of(telegram_emulator):
        yield client


@pytest.fixture
async def raw(telegram_emulator: ServedTelegram) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient() as http:
        yield Raw(telegram_emulator, http)


@pytest.fixture
def ada(telegram_emulator: ServedTelegram) -> Person:
    return telegram_emulator.emulator.add_person("Ada")


async def test_the_narrowest_list_is_shown_in_the_language_of_the_person(
    telegram_emulator: ServedTelegram, bot: Bot, ada: Person
) -> None:
    """The scope counts before the language; one that is deleted uncovers the wider one."""
    stage = telegram_emulator.emulator
    noor, dm, group = stage.add_person("Noor"), dm_of(telegram_emulator, ada), group_of(telegram_emulator)
    stage.set_language(ada.id, "de-AT")

    def shown(person: Person, place_id: str) -> list[str]:
        return [entry.about for entry in stage.menu(person.id, place_id)]

    assert shown(ada, dm.id) == []
    await bot.set_my_commands([("help", "anywhere")], scope=BotCommandScopeDefault())
    await bot.set_my_commands([("help", "überall")], language_code="de")
    assert shown(ada, dm.id) == ["überall"]
    await bot.set_my_commands([("help", "in private")], scope=BotCommandScopeAllPrivateChats())
    assert shown(ada, dm.id) == ["in private"]
    await bot.set_my_commands([("help", "for Ada")], scope=BotCommandScopeChat(int(ada.id)))
    assert shown(ada, dm.id) == ["for Ada"]
    assert shown(noor, dm_of(telegram_emulator, noor).id) == ["in private"]
    await bot.set_my_commands([], scope=BotCommandScopeChat(int(ada.id)))
    assert shown(ada, dm.id) == ["in private"]
    await bot.set_my_commands([("help", "in groups")], scope=BotCommandScopeAllGroupChats())
    assert (shown(ada, group.id), shown(noor, group.id)) == (["in groups"], ["in groups"])


async def test_a_list_is_read_back_for_its_own_scope_and_language_only(bot: Bot) -> None:
    await bot.set_my_commands([("/help", "what I understand")])
    (known,) = await bot.get_my_commands()
    assert (known.command, known.description) == ("help", "what I understand")
    assert list(await bot.get_my_commands(language_code="de")) == []
    assert list(await bot.get_my_commands(scope=BotCommandScopeAllGroupChats())) == []
    await bot.set_my_commands([])
    assert list(await bot.get_my_commands()) == []


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"commands": [{"command": "Help", "description": "d"}]}, "BOT_COMMAND_INVALID"),
        ({"commands": [{"command": "помощь", "description": "d"}]}, "BOT_COMMAND_INVALID"),
        ({"commands": [{"command": "x" * 33, "description": "d"}]}, "command length must not exceed 32"),
        ({"commands": [{"command": "x", "description": "d" * 257}]}, "command description length must not exceed 256"),
        ({"commands": [{"command": "x", "description": " "}]}, "command description must be non-empty"),
        ({"commands": [{"command": "x"}]}, "can't parse BotCommand"),
        ({"commands": [], "language_code": "german"}, "invalid language code specified"),
        ({"commands": [], "scope": {"type": "planet"}}, "unsupported type specified"),
        ({"commands": [], "scope": {"type": "chat", "chat_id": 77}}, "chat not found"),
    ],
)
async def test_what_telegram_refuses(raw: Raw, params: dict[str, object], why: str) -> None:
    assert why in await raw.refusal("setMyCommands", **params)
