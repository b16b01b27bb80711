"""Valkey, PostgreSQL and SQLite away, paused, locked or full: turns are put off, and nobody has to start anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.parts.fleet import WiredFleet, running_fleet
from tests.parts.ledger import Ledger

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
THINKING = {"TRIVET_AGENT__MODEL": "demo/scripted@800ms"}
ANSWERED_WITHIN_S = 60.0
LONGER_THAN_A_CALL_S = (
    7.0  # a call on the bus is repeated for two seconds, begun anew in the middle of that if others wait
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WiredFleet]:
    """One machine on Telegram: whatever is not mended by the process itself is mended by nobody."""
    folder = tmp_path_factory.mktemp("servers")
    hosts = {"h1": ("channels", "agent")}
    async with running_fleet(folder, hosts=hosts, settings=THINKING, platforms=["telegram"]) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def ledger(fleet: WiredFleet) -> AsyncIterator[Ledger]:
    """Three people in the middle of a turn; in the end everything is answered, the lanes are free and nobody died."""
    lives = [(role, role.pid) for role in fleet.roles]
    people = Ledger([fleet.chat("telegram", name) for name in ("Ann", "Ben", "Cleo")])
    await people.say_everywhere()
    assert await people.until_answered(within_s=ANSWERED_WITHIN_S)
    await people.say_everywhere()
    await fleet.until_figures(lambda figures: figures.running >= 3)
    yield people
    await people.until_answered(within_s=ANSWERED_WITHIN_S)
    await people.say_everywhere()
    assert await people.until_answered(within_s=ANSWERED_WITHIN_S), f"{people.verdict()}\n{fleet.log[-6000:]}"
    await fleet.until_settled()
    assert people.verdict().is_clean, str(people.verdict())
    assert [(role, role.pid) for role in fleet.roles] == lives


@pytest.mark.long
async def test_a_turn_that_ends_while_valkey_is_away_frees_its_lane(fleet: WiredFleet, ledger: Ledger) -> None:
    """The worker lives on, so nobody else would ever take the lane from it."""
    await fleet.kill_valkey()
    await asyncio.sleep(LONGER_THAN_A_CALL_S)
    await fleet.valkey.start()
    await ledger.say_everywhere()


@pytest.mark.long
async def test_a_partition_between_agent_and_valkey_frees_the_lane(fleet: WiredFleet, ledger: Ledger) -> None:
    """Nothing passes, then all of it at once."""
    wire = fleet.hosts["h1"].wires["bus"]
    wire.stop()
    await asyncio.sleep(LONGER_THAN_A_CALL_S + 3)
    await wire.mend()
    await ledger.say_everywhere()


@pytest.mark.long
async def test_postgresql_restarts_in_an_orderly_way(fleet: WiredFleet, ledger: Ledger) -> None:
    """Every connection is ended by the server."""
    await fleet.database.restart()
    await ledger.say_everywhere()


async def test_postgresql_is_killed(fleet: WiredFleet, ledger: Ledger) -> None:
    """What was committed is there, what was not is done again."""
    await fleet.database.kill()
    await ledger.say_everywhere()
    await asyncio.sleep(LONGER_THAN_A_CALL_S)
    await fleet.database.start()


@pytest.mark.long
async def test_postgresql_stands_still(fleet: WiredFleet, ledger: Ledger) -> None:
    """A pause of some seconds: nothing is refused, nothing answered."""
    fleet.database.pause()
    await ledger.say_everywhere()
    await asyncio.sleep(LONGER_THAN_A_CALL_S)
    fleet.database.resume()


@pytest.mark.long
async def test_postgresql_refuses_our_login_for_a_time(fleet: WiredFleet, ledger: Ledger) -> None:
    """As while passwords are changed: whoever came in before waits."""
    administrator = await fleet.database.connect()
    try:
        await administrator.execute("ALTER ROLE postgres NOLOGIN")
        await administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port IS NOT NULL AND pid <> $1",
            administrator.get_server_pid(),
        )
        await ledger.say_everywhere()
        await asyncio.sleep(LONGER_THAN_A_CALL_S)
    finally:
        await administrator.execute("ALTER ROLE postgres LOGIN")
        await administrator.close()


@pytest.mark.long
async def test_a_database_that_fails_over_for_a_minute_costs_no_message(fleet: WiredFleet, ledger: Ledger) -> None:
    """Connections are refused for longer than the attempts of a poisonous message last: the database is not
    the message's fault."""
    wire = fleet.hosts["h1"].wires["database"]
    await wire.cut()
    await ledger.say_everywhere()
    await asyncio.sleep(70)
    await wire.mend()
