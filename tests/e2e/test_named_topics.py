"""Topics of Telegram and assistant threads of Slack that bear the title of their conversation, through the real client
libraries."""

from __future__ import annotations

import httpx

from channels.core.adapter import CONNECTED
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import Place, PlaceKind, Stage
from channels.emulators.telegram import TelegramEmulator
from channels.telegram import limits
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import DeliveryState
from tests.parts.answering import EchoAgent
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.titles import called, until_state
from tests.parts.towns import slack_town, telegram_town
from tests.parts.waiting import until


def name_of(stage: Stage, place: Place) -> str:
    return next(each.title for each in stage.places() if each.id == place.id)


async def test_a_topic_that_the_client_made_of_a_message_bears_the_title(bus: RedisBus) -> None:
    """In the chat of one person with the bot; a second title comes from a message that answers another one, so that
    nothing beside it tells of the topic's creation any more."""
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        topic = town.stage.add_place(PlaceKind.THREAD, "how long do eg…", parent_id=town.dm(town.ann).id)
        said = await town.stage.say(town.ann.id, topic.id, "how long do eggs take?")
        assert await town.until_answers(1, topic) == ["echo: how long do eggs take?"]
        first = called(agent.heard[0], "🥚" * 80)
        await bus.deliveries.publish([first, called(agent.heard[0], "🥚" * 80)])
        await until_state(bus, first, DeliveryState.SENT)
        assert name_of(town.stage, topic) == "🥚" * (limits.TOPIC_NAME_UNITS_MAX // 2)
        await town.stage.say(town.ann.id, topic.id, "and on a mountain?", reply_to=said.id)
        await town.until_answers(2, topic)
        await bus.deliveries.publish([called(agent.heard[1], "Boiling eggs")])
        await until(lambda: name_of(town.stage, topic) == "Boiling eggs")
    assert agent.heard[0].key.place == agent.heard[1].key.place != ()


async def test_a_topic_that_somebody_named_keeps_its_name(bus: RedisBus) -> None:
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        await town.stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await town.until_answers(1, town.thread)
        title = called(agent.heard[0], "Boiling eggs")
        await bus.deliveries.publish([title])
        await until_state(bus, title, DeliveryState.SENT)
        assert name_of(town.stage, town.thread) == town.thread.title


async def test_a_topic_of_a_group_that_we_began_bears_the_title(bus: RedisBus) -> None:
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        async with httpx.AsyncClient(base_url=f"{town.api_base}/bot{TELEGRAM_TOKEN}/") as bot:
            await bot.post(
                "createForumTopic", json={"chat_id": int(town.thread.address.partition("/")[0]), "name": "…"}
            )
        topic = next(place for place in town.stage.places() if place.title == "…")
        await town.stage.say(town.ann.id, topic.id, "help us", mention_bot=True)
        await town.until_answers(1, topic)
        await bus.deliveries.publish([called(agent.heard[0], "Boiling eggs")])
        await until(lambda: name_of(town.stage, topic) == "Boiling eggs")


async def test_a_topic_that_is_gone_takes_neither_title_nor_answer(bus: RedisBus) -> None:
    """Both are reported as undelivered, and the chat around it is as alive as before."""
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        assert isinstance(town.stage, TelegramEmulator)
        topic = town.stage.add_place(PlaceKind.THREAD, "eggs", parent_id=town.dm(town.ann).id)
        await town.stage.say(town.ann.id, topic.id, "how long?")
        await town.until_answers(1, topic)
        town.stage.delete_topic(topic.id)
        title, late = called(agent.heard[0], "Boiling eggs"), agent.reply_to(agent.heard[0], "late")
        await bus.deliveries.publish([title, late])
        await until_state(bus, title, DeliveryState.FAILED)
        await until_state(bus, late, DeliveryState.FAILED)
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "still there?")
        assert await town.until_answers(1, town.dm(town.ann)) == ["echo: still there?"]


async def test_an_assistant_thread_of_slack_is_listed_under_the_title(bus: RedisBus) -> None:
    async with slack_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        assert isinstance(town.stage, SlackEmulator)
        thread = town.stage.open_assistant(town.ann.id)
        await town.stage.say(town.ann.id, thread.id, "how long do eggs take?")
        await until(lambda: agent.heard)
        await bus.deliveries.publish([called(agent.heard[0], "Boiling eggs")])
        await until(lambda: name_of(town.stage, thread) == "Boiling eggs")


async def test_other_threads_of_slack_have_no_names(bus: RedisBus) -> None:
    """Nor have those of an app that may not give any, which is no reason to think ill of its token."""
    async with slack_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus) as line:
        assert isinstance(town.stage, SlackEmulator)
        await town.stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await town.until_answers(1, town.thread)
        assistant = town.stage.open_assistant(town.ann.id)
        await town.stage.say(town.ann.id, assistant.id, "help me")
        await until(lambda: "echo: help me" in town.texts(assistant))
        granted, town.stage.switches.scopes = town.stage.switches.scopes, frozenset({"connections:write"})
        nameless, named = (called(message, "Boiling eggs") for message in agent.heard)
        await bus.deliveries.publish([nameless, named])
        await until_state(bus, nameless, DeliveryState.SENT)
        await until_state(bus, named, DeliveryState.FAILED)
        town.stage.switches.scopes = granted
        await town.stage.say(town.ann.id, assistant.id, "still there?")
        await until(lambda: "echo: still there?" in town.texts(assistant))
        assert line.state == CONNECTED
        assert name_of(town.stage, town.thread) == town.thread.title
