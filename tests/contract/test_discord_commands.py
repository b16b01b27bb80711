"""Commands chosen from Discord's menu, through the real SDK: taken in time, answered once, to whom it concerns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from channels.core import notices
from channels.core.runtime import ChannelConfig
from channels.discord import interactions, limits
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.interactions import NOT_ANSWERED
from channels.emulators.discord.world import DiscordRefusal, MessageFlag, MessageObject
from channels.emulators.stage import EventKind, Place, Said
from gateway.bus.bus import RedisBus
from gateway.contracts.access import AccessPolicy, PlaceRule, StrangerRule
from gateway.contracts.commands import Suggestion
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Draft, literal_text
from gateway.i18n import ENGLISH
from gateway.limits import LANE_MESSAGES_MAX
from tests.parts.answering import EchoAgent
from tests.parts.towns import OPEN, Town, discord_town
from tests.parts.waiting import PATIENCE_S, until

CLOSED = replace(OPEN, access=AccessPolicy(StrangerRule.CLOSED))
PAIRING = replace(OPEN, access=AccessPolicy(StrangerRule.PAIRING))


@pytest.fixture
async def town(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    monkeypatch.setattr(limits, "LINK_OPENS_WITHIN_S", 0.3)
    async with discord_town() as built:
        yield built


def stage_of(town: Town) -> DiscordEmulator:
    assert isinstance(town.stage, DiscordEmulator)
    return town.stage


@contextlib.asynccontextmanager
async def ready(town: Town, bus: RedisBus, rules: ChannelConfig = OPEN) -> AsyncIterator[EchoAgent]:
    """A line whose menu is there, and an agent."""
    agent = EchoAgent(bus)
    async with agent.at_work(), town.line(bus, rules):
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
        yield agent


async def invoked(town: Town, place: Place, name: str, argument: str = "") -> None:
    await stage_of(town).invoke(town.ann.id, place.id, name, argument)


def whispers(town: Town, place: Place) -> Sequence[Said]:
    return [said for said in town.answers(place) if said.only_for == town.ann.id]


def ours(town: Town, place: Place) -> Sequence[MessageObject]:
    messages = stage_of(town).world.channels[int(place.id)].messages.values()
    return [message for message in messages if message.author.id == stage_of(town).world.bot.id]


async def test_among_others_a_command_is_answered_to_the_one_who_chose_it(town: Town, bus: RedisBus) -> None:
    """In the lane of the place, like a mention there; in the meantime he sees that we think."""
    async with ready(town, bus) as agent, town.watched() as seen:
        stage_of(town).set_language(town.ann.id, "es-419")
        await invoked(town, town.group, "title", "Soup")
        assert await town.until_answers(1, town.group) == ["echo: /title Soup"]
        assert [said.only_for for said in town.answers(town.group)] == [town.ann.id]
        (heard,) = agent.heard
        assert (heard.text, str(heard.key)) == ("/title Soup", f"discord:{town.ann.id}/{town.group.id}")
        assert (heard.language, heard.is_private) == ("es-419", False)
        assert "Trivet is thinking" in [event.status for event in seen]
        assert not [event for event in seen if event.kind is EventKind.TOAST]


@pytest.mark.long
async def test_in_a_thread_and_in_a_direct_chat_it_belongs_there(town: Town, bus: RedisBus) -> None:
    """Where nobody else reads along, the answer stays."""
    async with ready(town, bus) as agent:
        await invoked(town, town.thread, "usage")
        await town.until_answers(1, town.thread)
        await invoked(town, town.dm(town.ann), "usage")
        await town.until_answers(1, town.dm(town.ann))
        assert [str(heard.key) for heard in agent.heard] == [
            f"discord:{town.ann.id}/{town.group.id}/{town.thread.id}",
            f"discord:{town.ann.id}",
        ]
        assert [said.only_for for said in town.answers(town.dm(town.ann))] == [None]


@pytest.mark.long
async def test_what_belongs_to_the_conversation_is_said_to_everybody(town: Town, bus: RedisBus) -> None:
    async with ready(town, bus):
        await invoked(town, town.group, "retry")
        await town.until_answers(1, town.group)
        assert [said.only_for for said in town.answers(town.group)] == [None]


@pytest.mark.parametrize(("name", "is_aside"), [("usage", True), ("retry", False)])
async def test_a_long_answer_follows_in_further_messages(town: Town, bus: RedisBus, name: str, is_aside: bool) -> None:
    """To the same people as its beginning."""
    async with ready(town, bus) as agent:
        agent.answer = lambda text: "\n\n".join(["word " * 300] * 3)
        await invoked(town, town.group, name)
        await town.until_answers(3, town.group)
        assert len(whispers(town, town.group)) == (3 if is_aside else 0)


@pytest.mark.parametrize("name", ["usage", "retry"])
async def test_nothing_is_fetched_from_where_an_answer_leads(town: Town, bus: RedisBus, name: str) -> None:
    """Neither for the message that waited for it nor for those that follow, be they seen by one or by all. Whoever
    makes a model write an address would hear from Discord what the address holds."""
    stage_of(town).switches.sends_unfurls = True
    async with ready(town, bus) as agent:
        agent.answer = lambda text: "\n\n".join(["https://example.org/?q=secret " * 40] * 3)
        await invoked(town, town.group, name)
        await town.until_answers(3, town.group)
    assert not any(message.embeds for message in ours(town, town.group))
    assert all(message.flags & MessageFlag.SUPPRESS_EMBEDS for message in ours(town, town.group))


async def test_only_the_answer_takes_the_place_of_the_waiting_message(town: Town, bus: RedisBus) -> None:
    """What is said at the same address later, such as a reminder, is a message of its own."""
    async with ready(town, bus) as agent:
        await invoked(town, town.group, "remind", "in a minute")
        await town.until_answers(1, town.group)
        agent.answer = lambda text: "reminder"
        await bus.deliveries.publish([agent.reply_to(agent.heard[0], "later")])
        assert await town.until_answers(2, town.group) == ["echo: /remind in a minute", "reminder"]
        assert [said.only_for for said in town.answers(town.group)] == [town.ann.id, None]


async def test_an_answer_that_outlives_the_token_is_a_message(town: Town, bus: RedisBus) -> None:
    async with ready(town, bus) as agent:
        done = asyncio.Event()
        agent.think_until(done)
        await invoked(town, town.group, "retry")
        await until(lambda: agent.heard)
        stage_of(town).switches.token_life_s = 0.0
        done.set()
        assert await town.until_answers(1, town.group) == ["echo: /retry"]


async def test_a_closed_way_to_the_one_who_asked_says_nothing_of_the_bot(town: Town, bus: RedisBus) -> None:
    """Nobody knows why it is closed; neither the bot's own token nor the channel is refused."""
    async with ready(town, bus):
        for count, status in enumerate((401, 403, 404), 1):
            stage_of(town).switches.refuses_links = DiscordRefusal(status, 0, "No")
            await invoked(town, town.group, "retry")
            assert await town.until_answers(count, town.group) == ["echo: /retry"] * count


async def test_an_answer_whose_acknowledgement_got_lost_is_there_once(town: Town, bus: RedisBus) -> None:
    """It fills the waiting message again."""
    async with ready(town, bus) as agent:
        done = asyncio.Event()
        agent.think_until(done)
        await invoked(town, town.group, "usage")
        await until(lambda: agent.heard)
        await until(lambda: any(asked.is_answered for asked in stage_of(town).interactions.known()))
        stage_of(town).faults.drop_after = 1
        done.set()
        await until(lambda: stage_of(town).faults.drop_after == 0)
        await until(lambda: any(said.edited for said in town.answers(town.group)))
        await town.stays_silent(1)


async def test_a_promise_whose_acknowledgement_got_lost_is_kept(town: Town, bus: RedisBus) -> None:
    """Nobody knows whether Discord waits for the answer; it does."""
    async with ready(town, bus):
        stage_of(town).faults.drop_after = 1
        await invoked(town, town.group, "usage")
        assert await town.until_answers(1, town.group) == ["echo: /usage"]
        assert len(whispers(town, town.group)) == 1


async def test_a_death_between_the_bus_and_the_acknowledgement_loses_nothing(
    town: Town, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discord waits for nothing any more: the answer is an ordinary message."""

    async def died(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async with town.line(bus):
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
        with monkeypatch.context() as patched:
            patched.setattr(interactions, "_promise", died)
            await invoked(town, town.group, "usage")
            agent = EchoAgent(bus)
            async with agent.at_work():
                await until(lambda: agent.heard)
    async with agent.at_work(), town.line(bus):
        assert await town.until_answers(1, town.group) == ["echo: /usage"]
        await town.stays_silent(1)


async def test_what_is_handed_out_twice_is_answered_once(town: Town, bus: RedisBus) -> None:
    async with ready(town, bus) as agent:
        stage_of(town).faults.duplicate = 1
        await invoked(town, town.group, "usage")
        assert await town.until_answers(1, town.group) == ["echo: /usage"]
        await town.stays_silent(1)
        assert len(agent.heard) == 1


@pytest.mark.long
async def test_who_has_too_much_waiting_is_told_at_once(town: Town, bus: RedisBus) -> None:
    async with town.line(bus):
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
        for _ in range(LANE_MESSAGES_MAX + 2):
            await invoked(town, town.group, "usage")
        await until(lambda: len(whispers(town, town.group)) == 2)
        assert {said.text for said in whispers(town, town.group)} == {notices.lane_full(LANE_MESSAGES_MAX, ENGLISH)}


@pytest.mark.long
@pytest.mark.parametrize(("rules", "told"), [(CLOSED, "I only talk to"), (PAIRING, "I do not know you yet")])
async def test_a_stranger_is_told_in_private(town: Town, bus: RedisBus, rules: object, told: str) -> None:
    """Every time, and nobody else hears of it."""
    async with town.line(bus, CLOSED if rules is CLOSED else PAIRING):
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
        for number in range(2):
            await invoked(town, town.group, "usage")
            await until(lambda number=number: len(whispers(town, town.group)) == number + 1)  # type: ignore[misc]
        assert all(said.text.startswith(told) for said in whispers(town, town.group))
        assert len(town.answers(town.group)) == 2


async def test_one_who_cannot_be_heard_now_is_told_so(town: Town, bus: RedisBus) -> None:
    """The process stops: the command would be lost."""
    async with town.line(bus) as line:
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
        await line.stop(grace_s=0.1)
        await invoked(town, town.group, "usage")
        await until(lambda: whispers(town, town.group))
        assert whispers(town, town.group)[0].text == ENGLISH.say(notices.NOT_NOW)


@pytest.mark.long
async def test_while_nobody_listens_the_client_says_so(town: Town, bus: RedisBus) -> None:
    """A command that nobody took within Discord's time stays unanswered."""
    async with town.line(bus):
        await until(lambda: stage_of(town).menu(town.ann.id, town.group.id))
    stage_of(town).switches.first_answer_s = 0.05
    async with town.watched() as seen:
        await invoked(town, town.group, "usage")
        await until(lambda: [event for event in seen if event.kind is EventKind.TOAST])
        (toast,) = [event for event in seen if event.kind is EventKind.TOAST]
        assert (toast.status, toast.person_id) == (NOT_ANSWERED, town.ann.id)


async def test_what_is_suggested_while_one_types_can_be_chosen(town: Town, bus: RedisBus) -> None:
    async def suggesting() -> None:
        while True:
            wanted = await bus.suggestions.wanted(wait_s=5)
            if wanted is not None:
                roses = Suggestion(literal_text("2. Roses"), literal_text("2"))
                await bus.suggestions.suggest(wanted, [roses] if wanted.typed == "ro" else [])

    answering = asyncio.create_task(suggesting())
    try:
        async with ready(town, bus) as agent:
            stage = stage_of(town)
            assert list(await stage.suggest(town.ann.id, town.group.id, "resume", "ro")) == ["2. Roses"]
            await invoked(town, town.group, "resume", "2. Roses")
            await until(lambda: agent.heard)
            assert agent.heard[0].text == "/resume 2"
            assert list(await stage.suggest(town.ann.id, town.group.id, "resume", "x")) == []
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


async def test_the_token_stands_in_no_message_on_the_bus(town: Town, bus: RedisBus) -> None:
    """Whoever has it may speak in our name."""
    async with ready(town, bus) as agent:
        await invoked(town, town.group, "usage")
        await town.until_answers(1, town.group)
        (asked,) = stage_of(town).interactions.known()
        assert asked.token not in repr(agent.heard)


@pytest.mark.long
async def test_an_answer_grows_in_the_waiting_message(town: Town, bus: RedisBus) -> None:
    """What was thought of as an answer to everybody is shown while it is made, and stays one message."""
    async with ready(town, bus) as agent:
        done = asyncio.Event()
        agent.think_until(done)
        agent.answer = lambda text: "a long answer that grew before everybody's eyes"
        await invoked(town, town.group, "retry")
        await until(lambda: agent.heard)
        message = agent.heard[0]
        draft = Draft(
            message.address,
            message.key,
            f"turn-{message.id}",
            f"{message.id}:answer",
            CleanText("a long answer that grew"),
        )
        async with asyncio.timeout(PATIENCE_S):
            while not town.answers(town.group):  # drafts are lossy: the agent says them again
                await bus.deliveries.show_draft(draft)
                await asyncio.sleep(0.1)
        assert town.texts(town.group)[0].startswith("a long answer that grew")
        done.set()
        await until(lambda: town.texts(town.group) == ["a long answer that grew before everybody's eyes"])
        await town.stays_silent(1)


async def test_a_role_of_the_server_lets_strangers_in_where_it_counts(town: Town, bus: RedisBus) -> None:
    """By message and by command; who has another role, or none, is turned away as ever."""
    cooks = stage_of(town).give_role(town.ann.id, "cooks")
    server = SessionKey("discord", "", (str(stage_of(town).guild.id),))
    access = AccessPolicy(StrangerRule.CLOSED, places={server: PlaceRule(roles=(cooks, "1"))})
    async with ready(town, bus, replace(OPEN, access=access)) as agent:
        await town.stage.say(town.ann.id, town.group.id, "soup?", mention_bot=True)
        await until(lambda: [heard.text for heard in agent.heard] == ["soup?"])
        await invoked(town, town.group, "title", "Soup")
        await until(lambda: [heard.text for heard in agent.heard] == ["soup?", "/title Soup"])
        await town.stage.say(town.ben.id, town.group.id, "me too", mention_bot=True)
        await until(lambda: any("let in" in said.text for said in town.answers(town.group)))
        assert len(agent.heard) == 2
