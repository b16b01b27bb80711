"""Opening a bus: clear words for everything that may be wrong, and never the password."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.contracts.ports import Verdict
from tests.parts.bus_samples import message
from tests.parts.databases import INSTALLATION
from tests.parts.ports import free_port

PASSWORD = "correct-horse"


@pytest.fixture
def guarded_port(valkey_server: EmbeddedValkey, raw_redis: Any) -> Iterator[int]:
    """The server, listening on a loopback port too, with a password."""
    port = free_port()
    raw_redis.config_set("bind", "127.0.0.1")
    raw_redis.config_set("port", port)
    own = urlsplit(valkey_server.url).password
    raw_redis.flushall()  # the server may have served another file's tests before
    raw_redis.config_set("requirepass", PASSWORD)
    yield port
    raw_redis.config_set("requirepass", own)
    raw_redis.config_set("port", 0)
    raw_redis.flushall()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "must begin with redis://"),
        ("localhost:6379", "must begin with redis://"),
        ("http://localhost", "must begin with redis://"),
        ("redis+sentinel://a,b", "must name the service"),
        ("redis+sentinel://a,b/primary/first", "must name the service"),
        ("redis+sentinel:///primary", "names no host"),
        ("redis+sentinel://a/primary?sentinel_db=1", "sentinel_db is not supported"),
        ("redis+cluster://", "names no host"),
        ("redis+cluster://a/1", "no database but 0"),
        ("redis+cluster://a:1,b:port", "malformed"),
        ("redis://host:port", "malformed"),
        ("redis://[::1", "malformed"),
        ("unix://", "path of a socket"),
        ("redis://localhost?decode_responses=true", "decode_responses is not supported"),
        ("rediss://localhost?ssl_cert_reqs=perhaps", "cannot be used"),
        ("rediss://localhost?ssl_trust=all", "cannot be used"),
        ("rediss+cluster://localhost?ssl_trust=all", "cannot be used"),
        ("redis://localhost?ssl_cert_reqs=none", "ssl_cert_reqs is not supported"),
        ("redis://localhost?db=first", "cannot be used"),
    ],
)
async def test_a_bad_url_is_refused_with_the_remedy(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.url") as caught:
        await open_bus(url)
    assert sentence in str(caught.value)


async def test_a_password_opens_the_bus(guarded_port: int) -> None:
    bus = await open_bus(f"redis://:{PASSWORD}@127.0.0.1:{guarded_port}/0", installation=INSTALLATION)
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.ACCEPTED
    await bus.close()


@pytest.mark.parametrize("login", ["", ":wrong-secret@", "nobody:wrong-secret@"])
async def test_a_wrong_password_is_told_without_telling_it(guarded_port: int, login: str) -> None:
    with pytest.raises(ConfigError, match="check user, password") as caught:
        await open_bus(f"redis://{login}127.0.0.1:{guarded_port}/0")
    assert "wrong-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("login", ["", ":wrong-secret@"])
async def test_a_wrong_password_is_told_on_a_unix_socket_too(valkey_server: EmbeddedValkey, login: str) -> None:
    """There the client library calls it a lost connection, for which one would wait in vain."""
    with pytest.raises(ConfigError, match="check user, password") as caught:
        await open_bus(f"unix://{login}{urlsplit(valkey_server.url).path}")
    assert "wrong-secret" not in str(caught.value)


async def test_a_login_that_is_refused_for_a_time_is_waited_for(tmp_path: Path) -> None:
    """As while an operator changes passwords: it does not stop the gateway, and counts against no message."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    operator = Redis.from_url(server.url)
    try:
        (password,) = (await operator.config_get("requirepass")).values()
        await operator.config_set("requirepass", "another-secret")
        await operator.execute_command("CLIENT", "KILL", "TYPE", "normal")  # type: ignore[no-untyped-call]
        for asked in (bus.operator.ping(), bus.files.wanted_file(wait_s=0)):
            with pytest.raises(BusUnavailable, match="check user, password"):
                await asked
        await operator.config_set("requirepass", str(password))
        await bus.operator.ping()
        assert await bus.files.wanted_file(wait_s=0) is None
    finally:
        await operator.aclose()
        await bus.close()
        await server.stop()


async def test_an_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(BusUnavailable, match=f"127.0.0.1:{port}") as caught:
            await open_bus(f"redis://me:{PASSWORD}@127.0.0.1:{port}")
    assert PASSWORD not in str(caught.value)


async def test_another_layout_is_refused(bus: RedisBus, valkey_url: str, raw_redis: Any) -> None:
    raw_redis.hset("{q0}:meta", "shards", "16")
    with pytest.raises(ConfigError, match="shards = 16"):
        await open_bus(valkey_url)
    raw_redis.hset("{q0}:meta", "shards", "1")


async def test_scripts_that_the_server_forgot_are_loaded_again(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1))
    raw_redis.script_flush()
    assert (await bus.intake.enqueue(message(2))).queued == 2


async def test_an_emptied_server_is_no_reason_to_fail(bus: RedisBus, raw_redis: Any) -> None:
    """FLUSHALL under a running role: groups are made again, intake goes on."""
    await bus.deliveries.replies("telegram", "c1", count=1, wait_s=0)
    raw_redis.flushall()
    assert await bus.deliveries.replies("telegram", "c1", count=1, wait_s=0) == []
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.ACCEPTED


async def test_a_closed_bus_says_so(valkey_url: str) -> None:
    bus = await open_bus(valkey_url)
    await bus.close()
    with pytest.raises(BusUnavailable, match="closed"):
        await bus.operator.ping()


def test_importing_the_package_is_cheap() -> None:
    """`gateway.bus` itself loads no Redis client."""
    program = "import sys, gateway.bus; sys.exit('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_who_is_stopped_while_connecting_stops(valkey_url: str) -> None:
    """Below redis-py is `asyncio.wait_for`, which may forget a cancellation before Python 3.12: a process told to stop
    would go on and wait for the next thing."""
    for steps in range(40):
        bus = await open_bus(valkey_url, installation=INSTALLATION)
        waiting = asyncio.create_task(bus.files.wanted_file(wait_s=5.0))
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=2.0)
        assert done, f"it went on after {steps} steps"
        assert waiting.cancelled()
        await bus.close()
