"""What only Slack does, in front of its emulator: threads, slash commands, redelivery, a hostile environment."""

from __future__ import annotations

import pytest

from channels.core.adapter import CONNECTED
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack.delivery import EventDelivery
from channels.emulators.stage import PlaceKind
from channels.slack.adapter import SlackAdapter
from channels.slack.connection import SlackEndpoint
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import CredentialsRejected
from tests.parts.answering import EchoAgent, agent
from tests.parts.emulated_slack import BOT_TOKEN
from tests.parts.incoming import NobodyHome
from tests.parts.only_slack import stage, town
from tests.parts.towns import Town, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


async def test_a_thread_we_were_called_into_needs_no_further_mention(
    town: Town, bus: RedisBus, agent: EchoAgent
) -> None:
    """Nor after a restart, when nothing but the bus remembers it."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.thread.id, "join us", mention_bot=True)
        await town.until_answers(1, town.thread)
        await town.stage.say(town.ben.id, town.thread.id, "hello")
        await town.until_answers(2, town.thread)
    async with town.line(bus):
        await town.stage.say(town.ben.id, town.thread.id, "still there?")
        assert (await town.until_answers(3, town.thread))[2] == "echo: still there?"


async def test_a_thread_we_were_never_called_into_is_left_alone(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.thread.id, "a private matter")
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
        await town.until_answers(1)
        await town.stays_silent(1)


async def test_a_thread_reply_that_was_missed_is_read_back(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """A channel's history shows no replies: each thread is read by itself."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.thread.id, "join us", mention_bot=True)
        await town.until_answers(1, town.thread)
    await town.stage.say(town.ben.id, town.thread.id, "while you slept")
    async with town.line(bus):
        assert (await town.until_answers(2, town.thread))[1] == "echo: while you slept"
        await town.stays_silent(2)


async def test_a_mention_arrives_as_two_events_and_is_one_message(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await town.until_answers(1, town.group)
        await town.stays_silent(1)
    assert len(agent.heard) == 1


async def test_a_slash_command_is_a_message(town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent) -> None:
    async with town.line(bus):
        stage.run_command(town.ann.id, town.dm(town.ann).id, "/trivet", "help")
        await until(lambda: bool(agent.heard))
    assert agent.heard[0].text == "/help"


async def test_variables_of_the_sdk_change_nothing(
    town: Town, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLACK_CLIENT_ID would switch Bolt to OAuth, HTTP_PROXY would send loopback traffic to a proxy."""
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"):
        monkeypatch.setenv(name, "from somebody else")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_a_wrong_app_token_ends_the_line_with_a_sentence(town: Town, bus: RedisBus) -> None:
    """The SDK by itself would try it for ever."""
    adapter = SlackAdapter(SlackEndpoint(BOT_TOKEN, "xapp-wrong", f"{town.api_base}/api/"), parts_on(bus))
    with pytest.raises(CredentialsRejected, match=r"channels\.slack\.app_token"):
        await adapter.run(NobodyHome())


async def test_people_in_one_channel_are_kept_apart(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.group.id, "one", mention_bot=True)
        await town.stage.say(town.ben.id, town.group.id, "two", mention_bot=True)
        await town.until_answers(2)
    assert len({message.key for message in agent.heard}) == 2


async def test_a_new_group_that_we_never_heard_before_is_read_back(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """What has no mark of its own begins where the account stopped listening."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
    garden = town.stage.add_place(PlaceKind.GROUP, "garden")
    await town.stage.say(town.ann.id, garden.id, "first words here", mention_bot=True)
    async with town.line(bus):
        assert (await town.until_answers(2))[1] == "echo: first words here"


async def test_a_message_without_a_proper_time_is_acknowledged_and_forgotten(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It stands in no history; nor may it spoil what is known of its channel."""
    broken = {"type": "message", "channel": town.group.id, "user": town.ann.id, "text": "hello"}
    events = [broken | {"ts": "yesterday"}, broken | {"ts": "1.000001", "thread_ts": "yesterday"}]
    async with town.line(bus):
        for event in events:
            stage.delivery.send(
                EventDelivery("events_api", {"type": "event_callback", "team_id": "T1", "event": event})
            )
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await town.until_answers(1, town.group)
        await until(lambda: len(stage.sockets.acknowledged) >= len(events) + 2)
    async with town.line(bus) as line:
        await stage.say(town.ann.id, town.group.id, "again", mention_bot=True)
        await town.until_answers(2, town.group)
        assert line.state == CONNECTED
