"""What was taken off the bus is on no disk either, once the bus was told to forget it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.ports import Verdict
from tests.parts.agents import message
from tests.parts.databases import INSTALLATION
from tests.parts.waiting import until

WORDS = "what nobody shall ever find again"


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[RedisBus]:
    """A bus on a server that writes everything down."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    yield bus
    await bus.close()
    await server.stop()


def is_on_disk(folder: Path) -> bool:
    return any(WORDS.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_log_that_was_told_to_forget_holds_what_is_there_and_nothing_of_what_was(
    kept: RedisBus, tmp_path: Path
) -> None:
    gone, left = message(WORDS), message("what is still there")
    await kept.intake.enqueue(gone)
    await kept.intake.enqueue(left)
    await kept.intake.withdraw(gone.key, gone.id)
    assert is_on_disk(tmp_path)
    await kept.operator.forget(gone.author)
    await kept.operator.forget(gone.author)  # while the first is under way
    await until(lambda: not is_on_disk(tmp_path))
    assert (await kept.intake.enqueue(left)).verdict is Verdict.DUPLICATE


async def test_a_server_without_a_log_has_nothing_to_forget(bus: RedisBus) -> None:
    await bus.operator.forget(message("anything").author)
