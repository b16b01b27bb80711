"""The supervision of a plan: starts processes, starts again those that die, stops everything in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.contracts.errors import TrivetError
from gateway.contracts.ports import Clock
from gateway.ops.supervisor.plan import ProcessPlan, RoleProcess
from gateway.process import EXIT_CONFIG, EXIT_FAILED, EXIT_OK

# The restarts of a role that died. Pure: time and chance come in as arguments.


FIRST_DELAY_S: Final = 0.2  # a crash by chance costs the users almost nothing
DELAY_MAX_S: Final = 30.0  # a role that cannot live still finds its cure within half a minute
STEADY_AFTER_S: Final = 60.0  # whoever lived this long did not die of its start
_JITTER: Final = 0.5  # several roles that lost the same server do not come back in step


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start the role again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class NoRestart:
    """Starting again is pointless: an operator has to change something."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The deaths of one role so far: `in_a_row` without a steady life between them."""

    in_a_row: int = 0

    def after(self, *, code: int, alive_s: float, chance: float) -> tuple[Restarts, RestartAfter | NoRestart]:
        """Decide what to do after a death. `chance` lies in [0, 1) and spreads the delay."""
        if code == EXIT_CONFIG:
            return self, NoRestart()
        deaths = 1 if alive_s >= STEADY_AFTER_S else self.in_a_row + 1
        doubled = FIRST_DELAY_S * 2 ** min(deaths - 1, 16)
        spread = 1 + _JITTER * (chance - 0.5)
        return Restarts(deaths), RestartAfter(max(FIRST_DELAY_S, min(doubled * spread, DELAY_MAX_S)))


class Say(Protocol):
    """The supervisor's log: an event in a few words, then facts."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class WatchedServer(Protocol):
    """The embedded Valkey, as far as it has to be kept alive."""

    async def start(self) -> str: ...

    async def wait(self) -> int:
        """Wait until the server has ended."""
        ...


class ProcessSupervisor:
    """Runs one plan until `stop` is called or a role cannot go on.

    Every process gets a pipe as standard input that is never written to: its end tells the child that
    this process is gone (`gateway.ops.supervisor.child`).
    """

    def __init__(self, plan: ProcessPlan, *, clock: Clock, chance: Callable[[], float], say: Say) -> None:
        self._plan = plan
        self._clock = clock
        self._chance = chance
        self._say = say
        self._living: dict[str, Process] = {}
        self._keepers: dict[str, list[asyncio.Task[None]]] = {}
        self._ending = asyncio.Event()
        self._exit_code = EXIT_OK

    async def supervise(self) -> int:
        """Start, watch and stop everything; the exit code of the whole."""
        if not await self._prepare():
            return self._exit_code
        for role in self._plan.roles:
            names = [role.name if role.processes == 1 else f"{role.name}-{i + 1}" for i in range(role.processes)]
            self._keepers[role.name] = [asyncio.create_task(self._keep(role, name), name=name) for name in names]
        await self._ending.wait()
        for role in self._plan.roles:
            await self._stop(role)
        return self._exit_code

    def stop(self) -> None:
        """Begin to stop in order; `run` returns when that is done."""
        self._ending.set()

    @property
    def is_stopping(self) -> bool:
        return self._ending.is_set()

    async def _prepare(self) -> bool:
        """Run the preparation to its end. False: it failed, or the operator did not want to wait for it."""
        process = await _spawn(self._plan.preparation)
        ended = asyncio.create_task(process.wait())
        stopped = asyncio.create_task(self._ending.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            await _end(process, self._plan.preparation.grace_s)
        self._exit_code = await ended if not self._ending.is_set() else EXIT_OK
        return self._exit_code == EXIT_OK and not self._ending.is_set()

    async def _keep(self, role: RoleProcess, name: str) -> None:
        """Keep one process of a role running, life after life."""
        restarts = Restarts()
        while not self._ending.is_set():
            started_s = self._clock.monotonic_s()
            code = await self._live(role, name)
            if self._ending.is_set():
                return
            alive_s = self._clock.monotonic_s() - started_s
            restarts, verdict = restarts.after(code=code, alive_s=alive_s, chance=self._chance())
            match verdict:
                case NoRestart():
                    self._say("role cannot start as it is configured, so everything stops", role=name)
                    self._exit_code = EXIT_CONFIG
                    self._ending.set()
                case RestartAfter(delay_s):
                    again_in_s = round(delay_s, 2)
                    self._say("role ended by itself", role=name, ended=_ending_text(code), again_in_s=again_in_s)
                    await self._pause(delay_s)

    async def _live(self, role: RoleProcess, name: str) -> int:
        """Live one life: from the start to the exit code. A machine that cannot start a process is a short life."""
        try:
            process = self._living[name] = await _spawn(role)
        except OSError as error:
            self._say("role cannot be started", role=name, error=str(error))
            return EXIT_FAILED
        try:
            self._say("role started", role=name, pid=process.pid)
            if self._ending.is_set():  # while it was being started, so nobody else will stop it
                await _end(process, role.grace_s)
            return await process.wait()
        finally:
            del self._living[name]

    async def _pause(self, delay_s: float) -> None:
        """Sleep, but not past the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._ending.wait()

    async def _stop(self, role: RoleProcess) -> None:
        """Ask every process of a role to stop, wait its grace, then insist."""
        keepers = self._keepers[role.name]
        processes = [self._living[task.get_name()] for task in keepers if task.get_name() in self._living]
        await asyncio.gather(*(_end(process, role.grace_s) for process in processes))
        await asyncio.gather(*keepers)
        if processes:
            self._say("role stopped", role=role.name)


async def keep_server(server: WatchedServer, *, clock: Clock, chance: Callable[[], float], say: Say) -> None:
    """Start the embedded server again, with its data, whenever it has ended. Runs until cancelled."""
    restarts = Restarts()
    started_s = clock.monotonic_s()
    while True:
        await server.wait()
        alive_s = clock.monotonic_s() - started_s
        restarts, verdict = restarts.after(code=EXIT_FAILED, alive_s=alive_s, chance=chance())
        if isinstance(verdict, RestartAfter):
            say("valkey ended by itself", again_in_s=round(verdict.delay_s, 2))
            await asyncio.sleep(verdict.delay_s)
        started_s = clock.monotonic_s()
        try:
            await server.start()
        except TrivetError as error:
            say("valkey does not start", error=str(error))
        else:
            say("valkey started")


async def _spawn(role: RoleProcess) -> Process:
    """Start a new process in a session of its own, so that Ctrl-C reaches only the supervisor."""
    environment: Mapping[str, str] = role.environment
    return await asyncio.create_subprocess_exec(*role.command, env=environment, stdin=PIPE, start_new_session=True)


async def _end(process: Process, grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _ending_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
