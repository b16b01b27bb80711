"""Channels of Telegram and the groups in which they are discussed, through the real SDK."""

from __future__ import annotations

from channels.emulators.stage import Place
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.towns import Town, telegram_town


def channel_of(town: Town) -> Place:
    """One that is discussed in the group."""
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage.add_channel("News", discussed_in=town.group.id)


async def test_a_post_that_mentions_the_bot_is_answered_in_the_channel_alone(bus: RedisBus) -> None:
    """The channel is its author. Neither the post nor the answer is answered where it is discussed."""
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        channel = channel_of(town)
        await town.stage.say(town.ann.id, channel.id, "not for a bot")
        await town.stage.say(town.ann.id, channel.id, "what is new?", mention_bot=True)
        assert await town.until_answers(1, channel) == ["echo: what is new?"]
        await until_delivered(bus, "telegram")
        discussed = [said.text for said in town.stage.said(town.group.id)]
        assert discussed == ["not for a bot", "@trivet_demo_bot what is new?", "echo: what is new?"]
        (heard,) = agent.heard
        assert (heard.author_name, heard.is_private) == ("News", False)
        assert str(heard.key) == f"telegram:{channel.address}/{channel.address}"
        await town.stays_silent(1)


async def test_who_comments_on_a_post_is_answered_in_the_discussion(bus: RedisBus) -> None:
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        channel = channel_of(town)
        await town.stage.say(town.ann.id, channel.id, "soup is ready")
        (post,) = town.stage.said(town.group.id)
        await town.stage.say(town.ben.id, town.group.id, "is it?", mention_bot=True, reply_to=post.id)
        assert await town.until_answers(1, town.group) == ["echo: is it?"]
        (heard,) = agent.heard
        assert heard.author_name == "Ben"
        assert [quote.text for quote in heard.quotes] == ["soup is ready"]
        assert town.texts(channel) == []
