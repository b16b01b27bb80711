"""Whatever happens to a child or to its parent: nobody is left, and nothing waits to be reaped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import secrets
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from agent.subagents.confinement import ROOT, Confinement
from agent.subagents.sandbox import ChildSandbox, find_confinement
from agent.subagents.supervisor import COMMAND, ChildEnding, Supervisor
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.contracts.subagents import TaskState
from gateway.scrub import Scrubber
from tests.parts.children import RecordingHost, alive, command, order, zombies_of
from tests.parts.waiting import until

SLEEPER = "time.sleep(60)"
BUSY = """
detached(lambda: time.sleep(60))
for number in range(3):
    say("tool_call", id=str(number), name="tool", arguments="{}")
    hear()
done("done")
"""
OURS = ""
"""Our own program, which asks its model and is done."""
AT_ONCE = 6
GROWTH_BYTES_MAX = 8 * 1024 * 1024
"""Noise of the allocator; one forgotten buffer of a pipe for each child would be eight times as much."""
LATEST_KILL_S = 0.2
ALL = tuple(Confinement)


_FOUND: dict[Confinement, ChildSandbox] = {}


async def sandbox_of(confinement: Confinement) -> ChildSandbox:
    """Each is looked for once."""
    try:
        if confinement not in _FOUND:
            _FOUND[confinement] = await find_confinement(confinement, hidden=[Path.home()])
    except ConfigError:
        pytest.skip(f"no {confinement} here")
    return _FOUND[confinement]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_bytes() -> int:
    """What this process holds, without what nobody needs any more."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def started(sandbox: ChildSandbox, script: str, mark: str, *, limit_s: float = 60.0) -> asyncio.Task[ChildEnding]:
    """A child whose processes carry a mark; without a script it is one of ours."""
    program = command(script) if script else COMMAND
    supervisor = Supervisor(sandbox, Scrubber(), SystemClock(), command=(*program, mark))
    return asyncio.create_task(supervisor.supervise(order(limit_s=limit_s), RecordingHost()))


async def gone(mark: str) -> None:
    """Nobody with this mark is left. The kernel may take a moment to forget whom it has killed."""
    await until(lambda: not alive(mark), lambda: alive(mark))


@pytest.fixture(params=ALL)
async def sandbox(request: pytest.FixtureRequest) -> ChildSandbox:
    return await sandbox_of(request.param)


async def test_a_killed_child_says_which_signal_it_was(sandbox: ChildSandbox) -> None:
    mark = secrets.token_hex(8)
    running = started(sandbox, SLEEPER, mark)
    depth = 3 if sandbox.confinement is Confinement.BUBBLEWRAP else 1
    await until(lambda: len(alive(mark)) == depth)
    os.kill(max(alive(mark)), signal.SIGKILL)
    ending = await running
    assert (ending.state, ending.reason) == (TaskState.FAILED, "killed_by_signal_9")
    await gone(mark)


async def test_stopped_from_outside_with_all_its_processes_it_is_ended_by_the_timer(sandbox: ChildSandbox) -> None:
    mark = secrets.token_hex(8)
    running = started(sandbox, SLEEPER, mark, limit_s=0.6)
    await until(lambda: alive(mark))
    for pid in alive(mark):
        os.kill(pid, signal.SIGSTOP)
    assert (await running).state is TaskState.TIMED_OUT
    await gone(mark)


async def test_what_left_its_group_and_ignores_sigterm_dies_with_it(sandbox: ChildSandbox) -> None:
    """Also what has no parent any more, and what holds no pipe. Landlock comes with a filter that lets no process be
    started at all."""
    mark = secrets.token_hex(8)
    script = """
def leave():
    for number in (0, 1, 2): os.close(number)
    if os.fork() == 0: time.sleep(600)
done(tried(lambda: detached(leave)))
time.sleep(0.05)
"""
    ending = await started(sandbox, script, mark)
    assert ending.response == ("PermissionError" if sandbox.confinement is Confinement.LANDLOCK else "None")
    await gone(mark)


@pytest.mark.parametrize(
    "confinement",
    [Confinement.BUBBLEWRAP, Confinement.PLAIN, pytest.param(Confinement.LANDLOCK, marks=pytest.mark.long)],
)
async def test_a_killed_parent_leaves_nobody_behind(confinement: Confinement) -> None:
    await sandbox_of(confinement)
    mark = secrets.token_hex(8)
    program = (sys.executable, "-m", "tests.parts.child_parent", confinement, mark)
    parent = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=os.environ)
    assert parent.stdout is not None
    try:
        async with asyncio.timeout(60):
            while await parent.stdout.readline() != b"up\n":
                assert not parent.stdout.at_eof()
        assert len(alive(mark)) > 1
    finally:
        parent.kill()
        await parent.wait()
    await gone(mark)


async def test_a_cancel_while_the_process_is_started_leaves_nobody_behind(sandbox: ChildSandbox) -> None:
    mark = secrets.token_hex(8)
    for rounds in range(6):
        running = started(sandbox, SLEEPER, mark)
        for _ in range(rounds):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await gone(mark)


@pytest.mark.parametrize("confinement", [Confinement.BUBBLEWRAP, Confinement.PLAIN])
@pytest.mark.parametrize("lasts_s", [0.0, 0.02, 0.22])
def test_a_loop_that_ends_in_the_middle_of_everything_leaves_nobody_behind(
    confinement: Confinement, lasts_s: float
) -> None:
    """It cancels whatever there is, once: starts that are half done, and ends that are."""
    mark = secrets.token_hex(8)

    async def main() -> None:
        sandbox = await sandbox_of(confinement)
        running = [started(sandbox, script, mark, limit_s=0.2) for script in (BUSY, SLEEPER, SLEEPER)]
        await asyncio.wait(running, timeout=lasts_s)

    asyncio.run(main())
    assert alive(mark) == []


@pytest.mark.parametrize(
    ("confinement", "count"),
    [
        (Confinement.BUBBLEWRAP, 25),
        (Confinement.PLAIN, 15),
        *(pytest.param(each, 1_000, marks=[pytest.mark.long, pytest.mark.timeout(900)]) for each in ALL),
    ],
)
async def test_many_spawns_with_random_kills_at_random_moments(confinement: Confinement, count: int) -> None:
    """A child is cancelled, or one of its processes is killed, or it is left alone; then nothing is left of it, and its
    parent has no more open files and no more memory than before."""
    sandbox, mark, chance = await sandbox_of(confinement), secrets.token_hex(8), random.Random(count)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        own = f"{mark}-{number}-"
        async with slots:
            running = started(sandbox, chance.choice((BUSY, SLEEPER, OURS)), own, limit_s=LATEST_KILL_S)
            await asyncio.wait([running], timeout=chance.uniform(0, LATEST_KILL_S))
            match chance.choice(("cancel", "kill", "wait")):
                case "cancel":
                    running.cancel()
                case "kill" if victims := alive(own):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(victims), signal.SIGKILL)
            await asyncio.wait([running])
            if not running.cancelled():
                assert running.exception() is None
            await gone(own)

    await asyncio.gather(*(one(number) for number in range(count // 5)))
    descriptors, resident = open_descriptors(), resident_bytes()
    await asyncio.gather(*(one(number) for number in range(count // 5, count)))
    assert alive(mark) == []
    assert zombies_of(os.getpid()) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert open_descriptors() <= descriptors
    assert resident_bytes() < resident + GROWTH_BYTES_MAX
