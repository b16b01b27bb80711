"""The menus of Telegram and Discord through the real SDKs: written where they differ, in the language of who looks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.core import runtime
from channels.core.adapter import ChannelAdapter
from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import LanguageStage, MenuEntry, MenuStage
from channels.emulators.telegram import TelegramEmulator
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from gateway.bus.bus import RedisBus
from gateway.contracts.commands import COMMANDS, CommandSpec, offered
from gateway.contracts.errors import SendFailed
from gateway.i18n import Language, about_in
from tests.parts.answering import EchoAgent
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import TOWNS, Town, discord_town, parts_on, telegram_town
from tests.parts.waiting import until

WITH_MENUS = ("discord", "telegram")


@pytest.fixture(params=WITH_MENUS)
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    async with TOWNS[request.param]() as built:
        yield built


def traffic(town: Town) -> tuple[int, int]:
    """How often the platform was asked what the menu is, and how often it was told."""
    if isinstance(town.stage, DiscordEmulator):
        said = [method for method, path in town.stage.api.requests if path.endswith("/commands")]
        return said.count("GET"), said.count("PUT")
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage.menu_traffic


def menu_of(town: Town, place_id: str) -> list[MenuEntry]:
    assert isinstance(town.stage, MenuStage)
    return list(town.stage.menu(town.ann.id, place_id))


def lists_of(town: Town) -> int:
    """How many lists make up the menu: on Telegram two scopes in five languages."""
    return 1 if town.platform == "discord" else 10


async def until_complete(town: Town) -> None:
    await until(lambda: traffic(town) == (lists_of(town), lists_of(town)))


async def test_a_person_is_offered_the_commands_in_his_language(town: Town, bus: RedisBus) -> None:
    """Where others read along, without those that belong into a direct chat."""
    async with town.starting(bus):
        await until_complete(town)
        assert isinstance(town.stage, LanguageStage)
        for tag, language in (("en-US", Language.EN), ("ru", Language.RU), ("zh-CN", Language.ZH), ("fr", Language.EN)):
            town.stage.set_language(town.ann.id, tag)
            shown = {entry.name: entry.about for entry in menu_of(town, town.dm(town.ann).id)}
            assert shown == {spec.name: about_in(spec, language) for spec in offered()}
        if isinstance(town.stage, DiscordEmulator):
            town.stage.interactions.permissions[int(town.ann.id)] = 0
        names = [entry.name for entry in menu_of(town, town.group.id)]
        assert names == [spec.name for spec in offered(is_private=False)]


async def test_what_stands_there_is_not_written_again(town: Town, bus: RedisBus) -> None:
    """By no second process, and at no second start."""
    async with town.starting(bus):
        await until_complete(town)
    async with town.starting(bus):
        await until(lambda: traffic(town) == (2 * lists_of(town), lists_of(town)))
    assert len(menu_of(town, town.dm(town.ann).id)) == len(offered())


@pytest.mark.long
async def test_a_changed_command_is_written(town: Town, bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    async with town.starting(bus):
        await until_complete(town)
    changed = (CommandSpec("help", "your conversations"), *COMMANDS[1:])
    monkeypatch.setattr("gateway.contracts.commands.COMMANDS", changed)
    async with town.starting(bus):
        await until(lambda: menu_of(town, town.dm(town.ann).id)[0] == MenuEntry("help", "your conversations"))


@pytest.mark.long
async def test_a_menu_that_cannot_be_had_keeps_nobody_from_talking(
    town: Town, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again until it is there."""
    refusals: list[None] = []

    async def refused(adapter: ChannelAdapter) -> None:
        refusals.append(None)
        if len(refusals) == 1:
            raise SendFailed("no")
        if len(refusals) == 2:
            raise KeyError("what no document foretold")

    monkeypatch.setattr(runtime, "MENU_RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(type(town.adapter(bus)), "publish_menu", refused)
    agent = EchoAgent(bus)
    async with agent.at_work(), town.line(bus):
        await until(lambda: len(refusals) == 3)
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_admins_are_offered_their_commands_where_only_they_read(bus: RedisBus) -> None:
    """On Telegram a list for their chat alone; one whom the bot has never met has none yet."""
    async with telegram_town() as town:
        adapter = TelegramAdapter(
            TelegramEndpoint(TELEGRAM_TOKEN, town.api_base), parts_on(bus), admins=(4711, int(town.ann.id))
        )
        async with town.line(bus, adapter=adapter):
            everything = [spec.name for spec in offered(is_admin=True)]
            await until(lambda: [entry.name for entry in menu_of(town, town.dm(town.ann).id)] == everything)
        assert isinstance(town.stage, MenuStage)
        for person, place in ((town.ben, town.dm(town.ben)), (town.ann, town.group)):
            assert "pair" not in [entry.name for entry in town.stage.menu(person.id, place.id)]


@pytest.mark.long
async def test_on_discord_managers_of_a_guild_are_offered_what_admins_say_there(bus: RedisBus) -> None:
    """Discord hides nothing from anybody in direct chats: there an admin types his commands."""
    async with discord_town() as town, town.starting(bus):
        await until_complete(town)
        assert isinstance(town.stage, DiscordEmulator)
        town.stage.interactions.permissions |= {int(town.ann.id): 1 << 5, int(town.ben.id): 1 << 11}
        for person, is_offered in ((town.ann, True), (town.ben, False)):
            names = [entry.name for entry in town.stage.menu(person.id, town.group.id)]
            assert ("queue" in names) is is_offered
            assert "pair" not in names


async def test_a_command_chosen_from_telegrams_menu_is_one_like_any_other(bus: RedisBus) -> None:
    async with telegram_town() as town:
        agent = EchoAgent(bus)
        async with agent.at_work(), town.line(bus):
            await until_complete(town)
            assert isinstance(town.stage, MenuStage)
            await town.stage.invoke(town.ann.id, town.group.id, "title", "Soup")
            await until(lambda: agent.heard)
            assert agent.heard[0].text == "/title Soup"
            with pytest.raises(ValueError, match="no such command"):
                await town.stage.invoke(town.ann.id, town.group.id, "export")
            with pytest.raises(ValueError, match="asks no bot"):
                await town.stage.suggest(town.ann.id, town.group.id, "resume", "so")
