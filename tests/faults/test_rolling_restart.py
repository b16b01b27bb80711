"""SIGTERM to one role after the other while people talk, as an upgrade does it: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.parts.fleet import Fleet, running_fleet
from tests.parts.ledger import Ledger
from tests.parts.product import Chat

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
GRACE_S = 3
SETTINGS = {"TRIVET_AGENT__MODEL": "demo/scripted@300ms", "LIMITS": f"SHUTDOWN_GRACE_S={GRACE_S}"}
ANSWERED_WITHIN_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """One channels role, and an agent on each of two machines."""
    folder = tmp_path_factory.mktemp("rolling")
    async with running_fleet(folder, hosts={"h1": ("channels", "agent"), "h2": ("agent",)}, settings=SETTINGS) as made:
        yield made


@pytest.mark.long
async def test_each_role_in_turn_under_load(fleet: Fleet) -> None:
    """Turns in progress end within the grace; what the platforms say meanwhile waits with them."""
    ledger = Ledger([fleet.chat(platform, name) for platform in fleet.stages for name in ("Ann", "Ben")])
    await ledger.say_everywhere()
    assert await ledger.until_answered(within_s=ANSWERED_WITHIN_S)
    ending = asyncio.Event()
    talking = asyncio.create_task(talk(ledger, ending))
    for role in fleet.roles:
        await asyncio.sleep(0.5)
        await role.restart()
        await fleet.until_connected()
    ending.set()
    await talking
    assert await ledger.until_answered(within_s=ANSWERED_WITHIN_S), ledger.open_words()
    await fleet.until_settled()
    assert ledger.verdict().is_clean, f"{ledger.verdict()}\n{fleet.log[-6000:]}"


async def talk(ledger: Ledger, ending: asyncio.Event) -> None:
    """Everybody says something every second. It is not cancelled: a word would count that nobody has said."""
    while not ending.is_set():
        await ledger.say_everywhere()
        await asyncio.sleep(1.0)


@pytest.mark.long
async def test_a_turn_that_outlasts_the_grace_is_handed_over(fleet: Fleet) -> None:
    """Another worker takes it at once, without waiting for a lease to end, and no attempt is counted."""
    ann, ben = (fleet.chat("telegram", name) for name in ("Ann", "Ben"))
    for chat in (ann, ben):
        await chat.ask("hello", expecting="hello")
    answers = await asyncio.gather(*(asked_slowly(fleet, chat) for chat in (ann, ben)))
    assert all(answer.count("That took 8 seconds") == 1 for answer in answers)
    await fleet.until_settled()
    assert [chat.heard.count("That took 8 seconds") for chat in (ann, ben)] == [1, 1]
    (row,) = await fleet.database.fetch("SELECT count(*) AS dead FROM turns WHERE state = 'failed'")
    assert row["dead"] == 0


async def asked_slowly(fleet: Fleet, chat: Chat) -> str:
    """The answer to a question that takes longer than the grace, while every agent is told to go in turn."""
    asking = asyncio.create_task(chat.ask("slow 8", expecting="That took"))
    await fleet.until_figures(lambda figures: figures.running > 0)
    if chat.person.name == "Ann":
        for role in fleet.of("agent"):
            role.send(signal.SIGTERM)
            await asyncio.sleep(GRACE_S + 2)
    return await asking
