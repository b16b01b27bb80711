"""`scrub.delete_inbound`: a message that held a secret goes from its platform, where that lets us; else we say so."""

from __future__ import annotations

from dataclasses import replace

from channels.core.notices import UNDELETED
from channels.core.runtime import ChannelConfig
from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import Place
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent
from tests.parts.towns import OPEN, Town, discord_town, slack_town, telegram_town, town
from tests.parts.waiting import until
from tests.scrubbing import draw

__all__ = ["agent", "town"]

DELETING: ChannelConfig = replace(OPEN, deletes_inbound=True)
TOKEN = draw("ghp_<base62:36>", seed=21)
OTHER = draw("ghp_<base62:36>", seed=22)


def standing(town: Town, place: Place) -> list[str]:
    """What people wrote in a place and can still be read there."""
    return [said.text for said in town.stage.said(place.id) if not said.author.is_bot]


def notices(town: Town, place: Place) -> int:
    return sum(UNDELETED.split(",")[0] in text for text in town.texts(place))


def give_rights(town: Town) -> None:
    """The bot may delete what others write in groups, where the platform knows such a right."""
    if isinstance(town.stage, TelegramEmulator):
        town.stage.faults.other["can_delete_messages"] = 1
    elif isinstance(town.stage, DiscordEmulator):
        town.stage.switches.moderates = True


async def until_gone(town: Town, place: Place, secret: str) -> None:
    await until(lambda: not any(secret in text for text in standing(town, place)), lambda: standing(town, place))


async def test_in_a_group_where_the_bot_may_delete_the_message_goes(bus: RedisBus, agent: EchoAgent) -> None:
    for build in (telegram_town, discord_town):
        async with build() as town, town.line(bus, DELETING):
            give_rights(town)
            await town.stage.say(town.ann.id, town.group.id, f"take {TOKEN}", mention_bot=True)
            await town.stage.say(town.ann.id, town.group.id, "and this", mention_bot=True)
            await until_gone(town, town.group, TOKEN)
            await town.until_answers(2, town.group)
            assert notices(town, town.group) == 0
            assert any("and this" in text for text in standing(town, town.group))


async def test_in_a_direct_chat_telegram_lets_the_bot_delete(bus: RedisBus, agent: EchoAgent) -> None:
    async with telegram_town() as town, town.line(bus, DELETING):
        dm = town.dm(town.ann)
        await town.stage.say(town.ann.id, dm.id, f"take {TOKEN}")
        await until_gone(town, dm, TOKEN)


async def test_where_it_may_not_be_done_the_author_is_asked_to_do_it(bus: RedisBus, agent: EchoAgent) -> None:
    """In direct chats of Discord and Slack nobody may, in a group of Telegram this bot may not."""
    for build in (telegram_town, discord_town, slack_town):
        async with build() as town, town.line(bus, DELETING):
            place = town.group if town.platform == "telegram" else town.dm(town.ann)
            is_group = place is town.group
            await town.stage.say(town.ann.id, place.id, f"take {TOKEN}", mention_bot=is_group)
            await until(lambda town=town, place=place: notices(town, place) == 1)  # type: ignore[misc]
            await town.stage.say(town.ann.id, place.id, f"take {OTHER}", mention_bot=is_group)
            await until(lambda town=town, place=place: notices(town, place) == 2)  # type: ignore[misc]
            assert [text for text in standing(town, place) if TOKEN in text]
            assert not any(TOKEN in text for text in town.texts(place))


async def test_a_deletion_outlives_the_process_that_was_to_do_it(bus: RedisBus, agent: EchoAgent) -> None:
    async with telegram_town() as town:
        dm = town.dm(town.ann)
        async with town.line(bus, DELETING):
            await town.stage.say(town.ann.id, dm.id, "hello")
            await town.until_answers(1, dm)
            town.stage.faults.server_error = 1_000
            await town.stage.say(town.ann.id, dm.id, f"take {TOKEN}")
            await until(lambda: len(agent.heard) == 2)
        assert any(TOKEN in text for text in standing(town, dm))
        town.stage.faults.server_error = 0
        async with town.line(bus, DELETING):
            await until_gone(town, dm, TOKEN)


async def test_what_held_no_secret_stays_and_so_does_everything_by_default(
    town: Town, bus: RedisBus, agent: EchoAgent
) -> None:
    give_rights(town)
    dm = town.dm(town.ann)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, f"take {TOKEN}")
        await town.until_answers(1, dm)
    async with town.line(bus, DELETING):
        await town.stage.say(town.ann.id, dm.id, "nothing to hide")
        await town.until_answers(2, dm)
        assert standing(town, dm) == [f"take {TOKEN}", "nothing to hide"]
