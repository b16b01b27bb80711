"""A platform that refuses what grows: the answer arrives once and whole all the same, or is told to be undeliverable.

With the real SDKs against the emulated platforms, in messages that stay and are changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from discord.http import HTTPClient

from channels.core import attempt
from channels.discord import limits as discord_limits
from channels.discord.interactions import hook_of
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.interactions import Interaction
from channels.emulators.discord.world import DiscordRefusal, forbidden
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import Place
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import DeliveryState
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.emulated_discord import DiscordWorld, ada_in_the_hall, discord, discord_world
from tests.parts.growing import Growing, growing, show_at_once
from tests.parts.towns import TOWNS, Town
from tests.parts.waiting import until

__all__ = ["discord_world"]

BEGINNING, MORE, ANSWER = "This is the beginning", "This is the beginning of it all", "This is the end."


@dataclass(frozen=True)
class Scene:
    """An answer is growing in a place; its first words are there."""

    town: Town
    place: Place
    bus: RedisBus
    turn: Growing

    async def ends(self, expected: list[str]) -> None:
        """The answer is whole, and nothing else of it is to be seen."""
        await self.turn.says(MORE)
        self.turn.answers(ANSWER)
        await until(lambda: self.town.texts(self.place) == expected, lambda: self.town.texts(self.place))
        await until_delivered(self.bus, self.town.platform)
        assert self.town.texts(self.place) == expected

    async def outcome(self) -> DeliveryState:
        """What became of the answer, by the ledger."""
        return (await self.bus.deliveries.delivered(self.turn.message.key, self.turn.reply_id)).state


@contextlib.asynccontextmanager
async def grown(platform: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    show_at_once(monkeypatch)
    monkeypatch.setattr(attempt, "RETRY_DELAYS_S", (0.05,) * len(attempt.RETRY_DELAYS_S))
    monkeypatch.setattr("channels.core.delivery.SETTLE_DELAYS_S", (0.05,) * 4)
    async with TOWNS[platform]() as town:
        town.stage.faults.other["unlimited"] = 1
        place = town.dm(town.ann) if platform == "slack" else town.group
        async with town.line(bus), growing(town, bus, place.id, mention_bot=place.person_id is None) as turn:
            await turn.says(BEGINNING)
            await until(lambda: town.texts(place) == [BEGINNING])
            yield Scene(town, place, bus, turn)


def stage_of(town: Town) -> DiscordEmulator:
    assert isinstance(town.stage, DiscordEmulator)
    return town.stage


def discord_refuses(refusal: DiscordRefusal) -> Callable[[Town], None]:
    def switch(town: Town) -> None:
        stage_of(town).switches.refuses_edits = refusal

    return switch


def telegram_refuses(status: int) -> Callable[[Town], None]:
    def switch(town: Town) -> None:
        town.stage.faults.other["refuses_edits"] = status

    return switch


def slack_refuses(word: str) -> Callable[[Town], None]:
    def switch(town: Town) -> None:
        assert isinstance(town.stage, SlackEmulator)
        town.stage.switches.refusals["chat.update"] = word

    return switch


ONLY_EDITS: dict[str, tuple[str, Callable[[Town], None]]] = {
    "discord-no-permission": ("discord", discord_refuses(forbidden(50013))),
    "discord-no-access": ("discord", discord_refuses(forbidden(50001))),
    "discord-archived": ("discord", discord_refuses(DiscordRefusal(400, 50083, "Thread is archived"))),
    "discord-somebody-elses": ("discord", discord_refuses(forbidden(50005))),
    "discord-invalid": ("discord", discord_refuses(DiscordRefusal(400, 50035, "Invalid Form Body"))),
    "telegram-never": ("telegram", telegram_refuses(400)),
    "telegram-no-right": ("telegram", telegram_refuses(403)),
    "slack-too-late": ("slack", slack_refuses("edit_window_closed")),
    "slack-not-here": ("slack", slack_refuses("restricted_action")),
    "slack-no-reason": ("slack", slack_refuses("cant_broadcast_message")),
}


QUICK = ("discord-no-permission", "telegram-no-right", "slack-too-late")


@pytest.mark.parametrize(
    "refused", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ONLY_EDITS]
)
async def test_where_only_changes_are_refused_the_answer_is_said_and_its_half_put_away(
    refused: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, switch = ONLY_EDITS[refused]
    async with grown(platform, bus, monkeypatch) as scene:
        switch(scene.town)
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


@pytest.mark.long
@pytest.mark.parametrize("platform", sorted(TOWNS))
async def test_where_everything_is_refused_the_answer_is_reported(
    platform: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The half of it that was shown cannot be taken away."""
    async with grown(platform, bus, monkeypatch) as scene:
        scene.town.stage.faults.blocked = True
        await scene.ends([BEGINNING])
        assert await scene.outcome() is DeliveryState.FAILED


@pytest.mark.long
@pytest.mark.parametrize("platform", sorted(TOWNS))
async def test_where_the_message_is_deleted_the_answer_is_said(
    platform: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with grown(platform, bus, monkeypatch) as scene:
        (said,) = scene.town.answers(scene.place)
        await scene.town.stage.delete(said.id, scene.place.id)
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


@pytest.mark.long
@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("platform", sorted(TOWNS))
async def test_while_the_server_has_trouble_the_answer_waits(
    platform: str, status: int, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with grown(platform, bus, monkeypatch) as scene:
        scene.town.stage.faults.other["server_error_status"] = status
        scene.town.stage.faults.server_error = 2
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


@pytest.mark.long
@pytest.mark.parametrize("platform", sorted(TOWNS))
async def test_a_pause_that_is_asked_for_in_the_middle_is_kept_and_loses_nothing(
    platform: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for again when it is over."""
    async with grown(platform, bus, monkeypatch) as scene:
        scene.town.stage.faults.retry_after_s = 1.0
        scene.town.stage.faults.rate_limit = 2
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


@pytest.mark.long
async def test_a_pause_longer_than_the_sdk_waits_is_ours(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """discord.py raises instead of waiting then: no call hangs, and the answer comes afterwards."""
    at_most_s = property(lambda _: 0.5, lambda *_: None)
    monkeypatch.setattr(HTTPClient, "max_ratelimit_timeout", at_most_s, raising=False)
    async with grown("discord", bus, monkeypatch) as scene:
        scene.town.stage.faults.retry_after_s = 1.0
        scene.town.stage.faults.rate_limit = 2
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


async def test_no_call_sleeps_through_a_long_pause_of_an_interaction(discord_world: DiscordWorld) -> None:
    """It would be cut meanwhile, and a message that nobody can look up be in doubt although it never arrived."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        command = stage.interactions.run_command(ada.id, hall.id, "ask")
        await until(lambda: client.interactions)
        await client.interactions[0].response.defer(thinking=True)
        stage.faults.retry_after_s, stage.faults.rate_limit = 40.0, 1
        with pytest.raises(discord.RateLimited) as paused:
            await hook_of(client, command.token).send("because")
        assert paused.value.retry_after == 40.0


# --- answers to commands of Discord's menu, which grow in the message that waits for them


@contextlib.asynccontextmanager
async def asked(
    command: str, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Scene, Interaction]]:
    """A command was chosen, and nothing of its answer is shown."""
    show_at_once(monkeypatch)
    monkeypatch.setattr(attempt, "RETRY_DELAYS_S", (0.05,) * len(attempt.RETRY_DELAYS_S))
    async with TOWNS["discord"]() as town:
        stage, agent, done = stage_of(town), EchoAgent(bus), asyncio.Event()
        stage.faults.other["unlimited"] = 1
        agent.think_until(done)
        async with agent.at_work(), town.line(bus):
            await until(lambda: stage.menu(town.ann.id, town.group.id))
            await stage.invoke(town.ann.id, town.group.id, command)
            await until(lambda: agent.heard)
            (interaction,) = stage.interactions.known()
            await until(lambda: interaction.is_answered)
            yield Scene(town, town.group, bus, Growing(bus, agent, agent.heard[0], done)), interaction


def strike(town: Town, fault: str) -> None:
    """The next calls are refused."""
    faults = town.stage.faults
    match fault:
        case "429":
            faults.retry_after_s, faults.rate_limit = 1.0, 2
        case "500":
            faults.other["server_error_status"], faults.server_error = 500, 1
        case "lost":
            faults.drop_after = 1
        case _:
            raise AssertionError(fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["429", "500", "lost"])
@pytest.mark.parametrize("command", ["retry", "usage"])
@pytest.mark.parametrize("is_begun", [False, True])
async def test_an_answer_through_an_interaction_is_there_once(
    command: str, fault: str, is_begun: bool, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its beginning is struck, or what follows; and to nobody else than before."""
    monkeypatch.setattr(discord_limits, "RATE_LIMIT_WAIT_MAX_S", 0.5)
    async with asked(command, bus, monkeypatch) as (scene, interaction):
        if is_begun:
            await scene.turn.says(BEGINNING)
            await until(lambda: scene.town.texts(scene.place) == [BEGINNING])
        strike(scene.town, fault)
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT
        (said,) = scene.town.answers(scene.place)
        assert said.only_for == (scene.town.ann.id if command == "usage" else None)
        assert interaction.original is not None
        assert said.id == str(interaction.original.id)


@pytest.mark.long
async def test_a_waiting_message_that_was_put_away_costs_no_answer(
    bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked("retry", bus, monkeypatch) as (scene, _):
        await scene.turn.says(BEGINNING)
        await until(lambda: scene.town.texts(scene.place) == [BEGINNING])
        (said,) = scene.town.answers(scene.place)
        await scene.town.stage.delete(said.id, scene.place.id)
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT


@pytest.mark.long
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_link_that_closes_while_an_answer_grows_costs_no_answer(
    status: int, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What everybody sees is changed as any message is."""
    async with asked("retry", bus, monkeypatch) as (scene, _):
        await scene.turn.says(BEGINNING)
        await until(lambda: scene.town.texts(scene.place) == [BEGINNING])
        stage_of(scene.town).switches.refuses_links = DiscordRefusal(status, 0, "No")
        await scene.ends([ANSWER])
        assert await scene.outcome() is DeliveryState.SENT
