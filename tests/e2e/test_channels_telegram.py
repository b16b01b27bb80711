"""What only Telegram does, in front of its emulator: migration, quarrelling pollers, webhooks, topics, albums."""

from __future__ import annotations

import httpx

from channels.core.lease import SOMEBODY_ELSE
from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent
from tests.parts.only_telegram import stage, town
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import Town
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


async def test_an_answer_follows_a_group_that_became_a_supergroup(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """The send to the old chat id is refused with the new one, and goes there."""
    stage.faults.other["basic_groups"] = 1
    group = stage.add_place(PlaceKind.GROUP, "old house")
    async with town.line(bus):
        stage.faults.other["migrate"] = 1
        await stage.say(town.ann.id, group.id, "still there?", mention_bot=True)
        assert await town.until_answers(1, group) == ["echo: still there?"]


async def test_a_quarrel_over_the_poll_is_left_to_the_other_for_a_while(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """A 409 says that somebody else polls; nothing is lost, and we come back."""
    async with town.line(bus) as line:
        stage.faults.other["conflict"] = 1
        await stage.cut_connections()
        await until(lambda: line.state.startswith("another process polls"))
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_a_forgotten_webhook_is_removed(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It would end every poll; what waits on the server is kept."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            f"{town.api_base}/bot{TELEGRAM_TOKEN}/setWebhook", data={"url": "https://example.org/hook"}
        )
        assert answer.json()["ok"]
    await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
    async with town.line(bus):
        assert await town.until_answers(1) == ["echo: hello"]


async def test_a_failing_server_is_reported_and_outlived(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus) as line:
        stage.faults.other["poll_errors"] = 2
        await stage.cut_connections()
        await until(lambda: line.state.startswith("Telegram does not answer"))
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]
        await until(lambda: line.state == "connected")


async def test_a_mention_by_name_counts(town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent) -> None:
    """Clients mention somebody without a user name by an entity alone."""
    stage.faults.other["text_mention"] = 1
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        assert await town.until_answers(1, town.group) == ["echo: hello"]


async def test_a_reply_to_the_bot_counts_and_the_answer_quotes_it(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "one", mention_bot=True)
        await town.until_answers(1, town.group)
        (first,) = town.answers(town.group)
        asked = await stage.say(town.ben.id, town.group.id, "two", reply_to=first.id)
        await town.until_answers(2, town.group)
    assert town.answers(town.group)[1].reply_to == asked.id


async def test_two_processes_never_poll_at_once(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """The second waits for the lease, says so, and takes over when the first is gone."""
    assert await bus.deliveries.hold("poller:telegram:4242001", "elsewhere", ttl_s=60)
    async with town.starting(bus) as line:
        await until(lambda: line.state == SOMEBODY_ELSE)
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        await bus.deliveries.release("poller:telegram:4242001", "elsewhere")
        assert await town.until_answers(1) == ["echo: hello"]
