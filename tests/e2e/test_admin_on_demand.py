"""The admin role on demand, as real processes: it starts when somebody asks, ends when nobody does, starts again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from starlette.types import Receive, Scope, Send

from gateway.clock import SystemClock
from gateway.ops.admin.__main__ import ActivityWatch
from gateway.ops.supervisor.plan import ProcessPlan, RoleProcess
from gateway.ops.supervisor.watch import DormantPort, ProcessSupervisor, is_health_check
from gateway.preflight import http_get, listen
from tests.e2e.test_cli_supervisor import Journal
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.waiting import PATIENCE_S

IMPATIENT = (
    "from gateway.ops.admin import __main__ as admin; from gateway.process import run_to_exit; "
    "admin.ADMIN_IDLE_S = {idle_s}; run_to_exit(admin.main)"
)
STARTED, RESTS = "role started", "role rests until it is asked"


class Operator:
    """A supervised admin role, and somebody who asks at its port."""

    def __init__(self, port: int, journal: Journal) -> None:
        self.port = port
        self.journal = journal

    async def status(self, path: str) -> int:
        answer = await http_get(LOOPBACK, self.port, path, timeout_s=PATIENCE_S)
        return answer.status if answer is not None else 0

    @property
    def pids(self) -> list[int]:
        """The processes of the role so far, in the order of their starts."""
        return [facts["pid"] for facts in self.journal.events(STARTED)]


@pytest_asyncio.fixture
async def supervised(
    tmp_path: Path, valkey_url: str, sqlite_url: str
) -> AsyncIterator[Callable[[float], Awaitable[Operator]]]:
    """Supervises the role with some patience, in seconds, until the test is over."""
    assert sqlite_url.endswith(f"{tmp_path}/trivet.db")
    async with contextlib.AsyncExitStack() as stack:

        async def started(idle_s: float) -> Operator:
            number, journal = free_port(), Journal()
            environment = {
                "PATH": os.environ["PATH"],
                "TRIVET_DATA_DIR": str(tmp_path),
                "TRIVET_REDIS__URL": valkey_url,
                "TRIVET_HTTP__PORT": str(number),
            }
            command = (sys.executable, "-c", IMPATIENT.format(idle_s=idle_s))
            role = RoleProcess("admin", command, environment, is_on_demand=True)
            port = stack.enter_context(contextlib.closing(DormantPort(listen(LOOPBACK, number, "http.port"), ())))
            watch = ProcessSupervisor(
                ProcessPlan((role,)), clock=SystemClock(), chance=lambda: 0.0, say=journal, port=port
            )
            running = asyncio.create_task(watch.supervise())
            stack.push_async_callback(lambda: running)
            stack.callback(watch.stop)
            return Operator(number, journal)

        yield started


async def test_it_starts_at_a_request_rests_and_starts_again(
    supervised: Callable[[float], Awaitable[Operator]],
) -> None:
    """Who has no token is refused by the role itself; a health check starts nothing."""
    operator = await supervised(0.5)
    assert await operator.status("/healthz") == 200
    assert operator.pids == []
    assert await operator.status("/api/v1/sessions") == 401
    await operator.journal.until(lambda: len(operator.journal.events(RESTS)) == 1)
    assert await operator.status("/healthz") == 200
    assert await operator.status("/sessions") == 303
    assert len(operator.pids) == 2


async def test_a_stream_is_being_asked_for_as_long_as_it_lasts() -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def stream(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await over.wait()

    async def unused(*_: object) -> Any:
        raise AssertionError

    watch = ActivityWatch(stream)
    listening = asyncio.create_task(watch({"type": "http"}, unused, unused))
    await begun.wait()
    assert watch.idle_s == 0.0
    over.set()
    await listening
    assert watch.idle_s > 0.0


async def test_killed_while_it_starts_it_loses_no_request(supervised: Callable[[float], Awaitable[Operator]]) -> None:
    operator = await supervised(60.0)
    asking = [asyncio.create_task(operator.status("/api/v1/sessions")) for _ in range(20)]
    for life in (1, 2):
        await operator.journal.until(lambda life=life: len(operator.pids) == life)  # type: ignore[misc]
        os.kill(operator.pids[-1], signal.SIGKILL)
    assert await asyncio.gather(*asking) == [401] * 20
    assert len(operator.pids) == 3


@pytest.mark.long
async def test_killed_while_nobody_asks_it_starts_at_the_next_request(
    supervised: Callable[[float], Awaitable[Operator]],
) -> None:
    operator = await supervised(60.0)
    assert await operator.status("/api/v1/sessions") == 401
    os.kill(operator.pids[0], signal.SIGKILL)
    await operator.journal.until(lambda: len(operator.journal.events("role ended by itself")) == 1)
    assert len(operator.pids) == 1
    assert await operator.status("/api/v1/sessions") == 401


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:8420\r\n\r\n", True),
        (b"GET /healthz HTTP/1.0\r\n\r\n", True),
        (b"GET /healthz HTTP/1.1\r\nHost: trivet.example\r\nAccept: */*\r\n\r\n", True),
        (b"GET /healthz HTTP/1.1\r\nHost: rebound.example\r\n\r\n", False),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example\r\n\r\n", False),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", False),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n", False),
        (b"GET /healthz HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", False),
        (b"GET /healthzz HTTP/1.1\r\n\r\n", False),
        (b"POST /healthz HTTP/1.1\r\n\r\n", False),
        (b"\x16\x03\x01", False),
    ],
)
def test_only_a_whole_health_check_under_our_name_is_answered_without_the_role(head: bytes, is_one: bool) -> None:
    assert is_health_check(head, {"trivet.example"}) is is_one
