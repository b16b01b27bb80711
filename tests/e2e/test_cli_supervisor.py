"""The supervisor on real, tiny processes: what it starts again, in which order it stops, what survives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.ops.supervisor.plan import ProcessPlan, RoleProcess, python_module
from gateway.ops.supervisor.watch import DormantPort, ForkedProcess, ForkOrigin, ProcessSupervisor, keep_server
from tests.parts.waiting import PATIENCE_S

NOTHING = ("-c", "pass")
UNTIL_TERM = "import signal, sys, pathlib; pathlib.Path(sys.argv[1]).touch(); signal.pause()"
STUBBORN = (
    "import signal, sys, pathlib, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
)


class Journal:
    """The supervisor's log; `until` waits for an event."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()

    def __call__(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))
        self._changed.set()

    def events(self, event: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.lines if name == event]

    async def until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            self._changed.clear()
            await self._changed.wait()


def python(name: str, *arguments: str, **settings: Any) -> RoleProcess:
    """A role that runs a line of Python."""
    return RoleProcess(name, (sys.executable, *arguments), {"PATH": os.defpath}, **settings)


def watch_of(
    *roles: RoleProcess, journal: Journal, port: DormantPort | None = None, origin: ForkOrigin | None = None
) -> ProcessSupervisor:
    clock, chance = SystemClock(), lambda: 0.5
    return ProcessSupervisor(ProcessPlan(roles), clock=clock, chance=chance, say=journal, port=port, origin=origin)


def file_appears(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_a_role_that_is_killed_starts_again_with_a_new_process(tmp_path: Path) -> None:
    journal = Journal()
    watch = watch_of(python("agent", "-c", UNTIL_TERM, str(tmp_path / "up")), journal=journal)
    running = asyncio.create_task(watch.supervise())
    await journal.until(lambda: len(journal.events("role started")) == 1)
    first = journal.events("role started")[0]["pid"]
    os.kill(first, signal.SIGKILL)
    await journal.until(lambda: len(journal.events("role started")) == 2)
    assert journal.events("role ended by itself") == [{"role": "agent", "ended": "SIGKILL", "again_in_s": 0.2}]
    watch.stop()
    assert await running == 0
    assert not any(psutil.pid_exists(facts["pid"]) for facts in journal.events("role started"))


A_COMMAND = """
import json, os, sys
os.write(0, json.dumps([sys.argv[1], os.environ["TRIVET_AGENT__API_KEY"]]).encode())
"""
A_ROLE = """
import json, os, pathlib, signal, sys
with open("/proc/self/cmdline") as shown:
    command = shown.read().rstrip("\\0").split("\\0")
found = {"words": sys.argv[1:], "environment": dict(os.environ), "parent": os.getppid(), "command": command}
found |= {"session": os.getsid(0), "executed_with": pathlib.Path("/proc/self/environ").read_text()}
part = pathlib.Path(sys.argv[2] + ".part")
part.write_text(json.dumps(found))
part.rename(sys.argv[2])
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="looks into processes that are closed")
@pytest.mark.parametrize(("can_fork", "has_begun"), [(True, False), (True, True), (False, False)])
async def test_roles_that_start_together_are_forks_that_know_their_own_secrets_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, can_fork: bool, has_begun: bool
) -> None:
    """And the supervisor's own children, which start again like all others, also where a command line, which knows all
    secrets, was run in a fork of their origin before. Where the system allows no such thing, each is executed."""
    if not can_fork:
        monkeypatch.setattr(os, "pidfd_open", Mock(side_effect=PermissionError))
    (tmp_path / "a_role.py").write_text(A_ROLE)
    common = {"PATH": os.defpath, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    monkeypatch.setenv("PYTHONPATH", common["PYTHONPATH"])
    monkeypatch.setenv("TRIVET_AGENT__API_KEY", "hush supervisor")
    origin = ForkOrigin.begin() if has_begun else None
    if origin is not None:
        (tmp_path / "a_command.py").write_text(A_COMMAND)
        assert origin.run("a_command", "quiet") == ["quiet", "hush supervisor"]
    roles = [
        RoleProcess(
            name, python_module("a_role", name, str(tmp_path / name)), {**common, f"KEY_OF_{name}": f"hush {name}"}
        )
        for name in ("channels", "agent")
    ]
    journal = Journal()
    running = asyncio.create_task((watch := watch_of(*roles, journal=journal, origin=origin)).supervise())
    await journal.until(lambda: len(journal.events("role started")) == 2)
    pids = {facts["role"]: facts["pid"] for facts in journal.events("role started")}
    for role in roles:
        await asyncio.to_thread(file_appears, tmp_path / role.name)
        found = json.loads((tmp_path / role.name).read_text())
        assert role.environment.items() <= found["environment"].items()
        assert str(found["environment"]).count("hush") == 1
        assert ("hush" in found["executed_with"]) is not can_fork
        assert found["words"] == [role.name, str(tmp_path / role.name)]
        assert found["command"] == list(role.command)
        assert (found["parent"], found["session"]) == (os.getpid(), pids[role.name])
    os.kill(pids["agent"], signal.SIGKILL)
    await journal.until(lambda: len(journal.events("role started")) == 3)
    assert journal.events("role ended by itself") == [{"role": "agent", "ended": "SIGKILL", "again_in_s": 0.2}]
    watch.stop()
    assert await running == 0
    assert not any(psutil.pid_exists(facts["pid"]) for facts in journal.events("role started"))


@pytest.mark.skipif(sys.platform != "linux", reason="roles are forks on Linux only")
async def test_an_origin_that_nobody_needs_ends() -> None:
    """As when the command line that began it finds the configuration wrong; or one role starts alone."""
    left, unused = ForkOrigin.begin(), ForkOrigin.begin()
    ending = [ForkedProcess(each.pid) for each in (left, unused)]
    left.told.close()
    watch = watch_of(python("agent", "-c", "import sys; sys.exit(2)"), journal=Journal(), origin=unused)
    assert await watch.supervise() == 2
    assert [await each.wait() for each in ending] == [0, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="roles are forks on Linux only")
@pytest.mark.parametrize(("ends", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 247)])
def test_a_command_line_that_hands_nothing_over_ends_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, code: int
) -> None:
    (tmp_path / "a_command.py").write_text(ends)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    origin = ForkOrigin.begin()
    with pytest.raises(SystemExit) as ended:
        origin.run("a_command")
    assert ended.value.code == code


@pytest.mark.skipif(sys.platform != "linux", reason="roles are forks on Linux only")
def test_a_command_line_whose_origin_is_gone_was_never_run() -> None:
    """So that its caller runs it."""
    origin = ForkOrigin.begin()
    os.kill(origin.pid, signal.SIGKILL)
    with origin.told, pytest.raises((ChildProcessError, ConnectionError)):
        origin.run("a_command")
    os.waitpid(origin.pid, 0)


async def test_roles_stop_one_after_another_in_the_order_of_the_plan(tmp_path: Path) -> None:
    journal = Journal()
    files = {name: tmp_path / name for name in ("channels", "agent-1", "agent-2", "admin")}
    roles = [
        python("channels", "-c", UNTIL_TERM, str(files["channels"])),
        python("agent", "-c", UNTIL_TERM, str(tmp_path / "agent-1"), processes=2),
        python("admin", "-c", UNTIL_TERM, str(files["admin"])),
    ]
    watch = watch_of(*roles, journal=journal)
    running = asyncio.create_task(watch.supervise())
    await journal.until(lambda: len(journal.events("role started")) == 4)
    watch.stop()
    assert await running == 0
    assert {facts["role"] for facts in journal.events("role started")} == files.keys()
    assert [facts["role"] for facts in journal.events("role stopped")] == ["channels", "agent", "admin"]


async def test_a_process_that_ignores_its_grace_is_killed(tmp_path: Path) -> None:
    journal = Journal()
    watch = watch_of(python("agent", "-c", STUBBORN, str(tmp_path / "up"), grace_s=0.1), journal=journal)
    running = asyncio.create_task(watch.supervise())
    await asyncio.to_thread(file_appears, tmp_path / "up")
    watch.stop()
    assert await running == 0
    assert not psutil.pid_exists(journal.events("role started")[0]["pid"])


async def test_a_role_that_finds_its_configuration_wrong_stops_everything(tmp_path: Path) -> None:
    journal = Journal()
    roles = (
        python("channels", "-c", UNTIL_TERM, str(tmp_path / "up")),
        python("agent", "-c", "import sys; sys.exit(2)"),
    )
    assert await watch_of(*roles, journal=journal).supervise() == 2
    assert len(journal.events("role started")) == 2
    assert not any(psutil.pid_exists(facts["pid"]) for facts in journal.events("role started"))


async def test_the_embedded_server_is_started_again_with_each_death() -> None:
    class Mortal:
        """A server that fails to come back once."""

        def __init__(self) -> None:
            self.starts = 0
            self.death = asyncio.Event()
            self.death.set()

        async def start(self) -> str:
            self.starts += 1
            if self.starts == 1:
                raise ConfigError("no space left on device")
            self.death.clear()
            return "unix:///s.sock"

        async def wait(self) -> int:
            await self.death.wait()
            return 1

    journal, server = Journal(), Mortal()
    keeping = asyncio.create_task(keep_server(server, clock=SystemClock(), chance=lambda: 0.0, say=journal))
    await journal.until(lambda: len(journal.events("valkey started")) == 1)
    server.death.set()
    await journal.until(lambda: len(journal.events("valkey started")) == 2)
    keeping.cancel()
    assert server.starts == 3
    assert journal.events("valkey does not start") == [{"error": "no space left on device"}]


def test_a_child_ends_when_its_parent_is_killed() -> None:
    """The parent has no chance to say good-bye; the child hears of it all the same."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'gateway.ops.supervisor.child', 'http.server', '0',"
        " '--bind', '127.0.0.1'], stdin=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    gone, alive = psutil.wait_procs([child], timeout=PATIENCE_S)
    assert (len(gone), alive) == (1, [])
