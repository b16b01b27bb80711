"""Whatever happens to a poll, the next one asks for the same updates, and the state says how it is."""

from __future__ import annotations

import pytest

from channels.core import runtime
from channels.core.adapter import CONNECTED, ChannelAdapter
from channels.emulators.telegram import TelegramEmulator
from channels.telegram import limits
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from channels.telegram.connection import PollTimeouts
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent
from tests.parts.only_telegram import stage, town
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import Town, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


def impatient(town: Town, bus: RedisBus) -> ChannelAdapter:
    return TelegramAdapter(
        TelegramEndpoint(TELEGRAM_TOKEN, town.api_base), parts_on(bus), timeouts=PollTimeouts(poll_s=1, silence_s=0.2)
    )


async def test_a_poll_that_never_comes_back_is_given_up(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Only the end of a poll shows that somebody is there; the next one gets what this one should have brought."""
    dm = town.dm(town.ann)
    async with town.line(bus, adapter=impatient(town, bus)) as line:
        stage.faults.other["hang_polls"] = 1
        await until(lambda: stage.faults.other["hang_polls"] < 1)
        await stage.say(town.ann.id, dm.id, "meanwhile")
        await until(lambda: line.state.startswith("Telegram does not answer"))
        assert await town.until_answers(1, dm) == ["echo: meanwhile"]
        await until(lambda: line.state == CONNECTED)
        await town.stays_silent(1)


async def test_ids_that_begin_anew_are_not_taken_for_old_ones(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """After a week without an update Telegram may count from anywhere."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
    account = f"telegram:{TELEGRAM_TOKEN.partition(':')[0]}"
    known = await bus.intake.position(account)
    assert known
    await bus.intake.set_position(account, f"{known.partition('@')[0]}@1")  # that was long ago
    stage.updates.restart_ids(5)
    await stage.say(town.ann.id, dm.id, "a week later")
    async with town.line(bus):
        assert await town.until_answers(2, dm) == ["echo: before", "echo: a week later"]
        await town.stays_silent(2)


def test_a_dead_link_is_noticed_within_half_a_minute() -> None:
    """The longest that a poll may take before it counts as lost."""
    assert limits.POLL_TIMEOUT_S + limits.POLL_READ_MARGIN_S <= 30


async def test_who_was_let_in_once_waits_outside_when_it_is_thrown_out(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state says why, and nothing is lost: platforms in trouble forget tokens, and know them again."""
    monkeypatch.setattr(runtime, "REJECTED_FIRST_S", 0.02)
    dm = town.dm(town.ann)
    async with town.line(bus) as line:
        await until(lambda: line.state == CONNECTED)
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
        stage.faults.other["revoked"] = 1
        await stage.cut_connections()
        await until(lambda: "token" in line.state)
        await stage.say(town.ann.id, dm.id, "meanwhile")
        stage.faults.other["revoked"] = 0
        assert await town.until_answers(2, dm) == ["echo: before", "echo: meanwhile"]
        await until(lambda: line.state == CONNECTED)
