"""Several accounts of one platform in one process: each with its own people, sessions, replies and reports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping

import pytest

from channels.__main__ import ChannelSupervisor, chosen
from channels.core.adapter import CONNECTED
from channels.emulators.serving import serve
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import Place, Stage
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from gateway.config import load_settings
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent
from tests.parts.ports import free_port
from tests.parts.waiting import PATIENCE_S, POLL_S, until

BOTS = {"telegram": "4242001:first-bot", "support": "4242002:second-bot"}


@contextlib.asynccontextmanager
async def channels(bus: RedisBus, environ: Mapping[str, str], *asked: str) -> AsyncIterator[None]:
    """The channels role with these settings, in this process."""
    settings = load_settings(None, {"TRIVET_ACCESS__DEFAULT": "open", **environ}).settings
    stopping = asyncio.Event()
    running = asyncio.create_task(ChannelSupervisor(settings, chosen(settings, asked), Scrubber(), bus, stopping).run())
    try:
        yield
    finally:
        stopping.set()
        await running


async def connected(bus: RedisBus, *names: str) -> None:
    """Wait until just these channels have reported that they are connected."""
    async with asyncio.timeout(PATIENCE_S):
        while (await bus.operator.figures()).channels_connected != dict.fromkeys(names, CONNECTED):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


def dm(stage: Stage) -> Place:
    """The direct chat of the first person."""
    return next(place for place in stage.places() if place.person_id)


def answers(stage: Stage) -> list[str]:
    return [said.text for said in stage.said(dm(stage).id) if said.author.is_bot]


async def answered(stage: Stage, answer: str) -> None:
    """Wait for the one answer that there should be."""
    await until(lambda: answers(stage) == [answer], lambda: answers(stage))


@pytest.fixture
async def two_bots() -> AsyncIterator[tuple[dict[str, TelegramEmulator], dict[str, str]]]:
    """Two bots of Telegram, the second one called by it, and the settings for both."""
    stages = {name: TelegramEmulator(token=token) for name, token in BOTS.items()}
    port = free_port()
    async with serve(stages) as where:
        for stage in stages.values():
            stage.add_person("Ann")
        yield (
            stages,
            {
                "TRIVET_HTTP__WEBHOOK_PORT": str(port),
                "TRIVET_HTTP__PUBLIC_URL": f"http://127.0.0.1:{port}",
                "TRIVET_CHANNELS__TELEGRAM__TOKEN": BOTS["telegram"],
                "TRIVET_CHANNELS__TELEGRAM__API_BASE": where.url_of("telegram"),
                "TRIVET_CHANNELS__TELEGRAM__ACCOUNTS__SUPPORT__TOKEN": BOTS["support"],
                "TRIVET_CHANNELS__TELEGRAM__ACCOUNTS__SUPPORT__API_BASE": where.url_of("support"),
                "TRIVET_CHANNELS__TELEGRAM__ACCOUNTS__SUPPORT__MODE": "webhook",
            },
        )


async def test_two_bots_of_one_platform_answer_each_in_its_own_name(
    bus: RedisBus, two_bots: tuple[dict[str, TelegramEmulator], dict[str, str]]
) -> None:
    """The same person has two lanes, one at each: `telegram:…` and `telegram.support:…`."""
    stages, environ = two_bots
    async with EchoAgent(bus).at_work() as agent, channels(bus, environ):
        for name, stage in stages.items():
            await stage.say(stage.people()[0].id, dm(stage).id, f"hello {name}")
        for name, stage in stages.items():
            await answered(stage, f"echo: hello {name}")
        await connected(bus, "telegram", "telegram.support")
    keys = {str(message.text): message.key for message in agent.heard}
    ann = stages["telegram"].people()[0].id
    assert str(keys["hello telegram"]) == f"telegram:{ann}"
    assert keys["hello support"].channel == "telegram.support"
    assert keys["hello support"].platform == "telegram"


@pytest.mark.long
async def test_one_account_may_be_started_alone(
    bus: RedisBus, two_bots: tuple[dict[str, TelegramEmulator], dict[str, str]]
) -> None:
    stages, environ = two_bots
    async with EchoAgent(bus).at_work(), channels(bus, environ, "telegram.support"):
        for name, stage in stages.items():
            await stage.say(stage.people()[0].id, dm(stage).id, f"hello {name}")
        await until(lambda: answers(stages["support"]) == ["echo: hello support"])
    assert answers(stages["telegram"]) == []


@pytest.mark.long
async def test_two_workspaces_whose_people_have_the_same_ids_stay_apart(bus: RedisBus) -> None:
    """An id of Slack is unique in its workspace only."""
    stages = {name: SlackEmulator(bot_token=f"xoxb-{name}", app_token=f"xapp-{name}") for name in ("slack", "sales")}
    async with serve(stages) as where, EchoAgent(bus).at_work() as agent:
        people = {name: stage.add_person("Ann") for name, stage in stages.items()}
        environ = {}
        for name, prefix in (("slack", "SLACK"), ("sales", "SLACK__ACCOUNTS__SALES")):
            environ[f"TRIVET_CHANNELS__{prefix}__BOT_TOKEN"] = f"xoxb-{name}"
            environ[f"TRIVET_CHANNELS__{prefix}__APP_TOKEN"] = f"xapp-{name}"
            environ[f"TRIVET_CHANNELS__{prefix}__API_BASE"] = f"{where.url_of(name)}/api/"
        async with channels(bus, environ):
            await connected(bus, "slack", "slack.sales")
            for name, stage in stages.items():
                await stage.say(people[name].id, dm(stage).id, f"hello {name}")
            for name, stage in stages.items():
                await answered(stage, f"echo: hello {name}")
    assert sorted(message.key.channel for message in agent.heard) == ["slack", "slack.sales"]


async def test_without_a_channel_that_is_called_nothing_listens(bus: RedisBus) -> None:
    stage = TelegramEmulator(token=BOTS["telegram"])
    port = free_port()
    async with serve({"telegram": stage}) as where:
        environ = {
            "TRIVET_HTTP__WEBHOOK_PORT": str(port),
            "TRIVET_CHANNELS__TELEGRAM__TOKEN": BOTS["telegram"],
            "TRIVET_CHANNELS__TELEGRAM__API_BASE": where.url_of("telegram"),
        }
        async with channels(bus, environ):
            await stage.updates.has_poll.wait()
            with socket.socket() as client:
                assert client.connect_ex(("127.0.0.1", port)) != 0
