"""SQLite locked by a stranger, and a disk without room: turns wait, and go on by themselves."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from tests.parts.ledger import Ledger
from tests.parts.product import Product, running_product

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
BUSY_S = 8.0  # longer than the busy timeout of 5 s
FULL_S = 4.0
ANSWERED_WITHIN_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """The embedded default on Telegram."""
    folder = tmp_path_factory.mktemp("sqlite")
    async with running_product(folder, platforms=["telegram"]) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def ledger(product: Product) -> AsyncIterator[Ledger]:
    """Two people, known to the bot; in the end each word has one answer and the agent is the same process."""
    (agent,) = product.processes()["agent"]
    people = Ledger([product.chat("telegram", name) for name in ("Ann", "Ben")])
    await people.say_everywhere()
    assert await people.until_answered(within_s=ANSWERED_WITHIN_S)
    yield people
    assert await people.until_answered(within_s=ANSWERED_WITHIN_S), product.log[-4000:]
    await people.say_everywhere()
    assert await people.until_answered(within_s=ANSWERED_WITHIN_S), product.log[-4000:]
    await product.until_settled()
    assert people.verdict().is_clean, str(people.verdict())
    assert product.processes()["agent"] == [agent]


@pytest.mark.long
async def test_a_stranger_holds_the_write_lock_for_longer_than_we_wait(product: Product, ledger: Ledger) -> None:
    """A backup tool, or a person with a shell."""
    stranger = sqlite3.connect(product.data_dir / "trivet.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    await ledger.say_everywhere()
    await asyncio.sleep(BUSY_S)
    assert ledger.open_words()
    stranger.execute("ROLLBACK")
    stranger.close()


@pytest.mark.long
async def test_the_disk_has_no_room(product: Product, ledger: Ledger) -> None:
    """No file of the agent may grow, its log included: what a full disk does to a database and to all else."""
    (agent,) = product.processes()["agent"]
    limits = limit_files(agent, (1, resource.RLIM_INFINITY))
    try:
        await ledger.say_everywhere()
        await asyncio.sleep(FULL_S)
        assert ledger.open_words()
    finally:
        limit_files(agent, limits)


def limit_files(process: psutil.Process, limits: tuple[int, int]) -> tuple[int, int]:
    """Set how large a file the process may write; what it was."""
    before: tuple[int, int] = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, limits)
    return before
