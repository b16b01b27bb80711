"""The supervision of a plan: starts processes, starts again those that die, stops everything in order, and holds the
port of a role that rests."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.contracts.errors import TrivetError
from gateway.limits import HTTP_BACKLOG, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_S
from gateway.ops.supervisor.plan import ProcessPlan, RoleProcess
from gateway.preflight import is_our_name
from gateway.process import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, INHERITED, READY

if TYPE_CHECKING:
    from gateway.contracts.ports import Clock  # loads all contracts, which the supervisor lives without

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


# The operator's port while nobody serves it: who asks for more than our health is held until the admin role is there.
#
# The supervisor listens all the time, so that the port is never refused, and the admin role takes the listener over
# when it starts (as an inherited descriptor) together with the connections that are held here. A connection is given up
# here only when the role has said that it is ready: one that is killed while it starts loses no request. Of a request
# only the first bytes are looked at, without taking them from the connection, so that the role reads and judges all.


_HEALTH: Final = (b"GET /healthz HTTP/1.1", b"GET /healthz HTTP/1.0")
_END_OF_HEAD: Final = b"\r\n\r\n"
_BODY: Final = b'{"status":"ok"}'
_HEALTHY: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def is_health_check(head: bytes, hosts: Collection[str]) -> bool:
    """Tell whether these are all the bytes of a request for /healthz under one of our names. Any other request, and one
    that has not come whole, is for the admin role to judge."""
    lines = head.removesuffix(_END_OF_HEAD).split(b"\r\n")
    if not head.endswith(_END_OF_HEAD) or lines[0] not in _HEALTH or b"" in lines:
        return False
    fields = [line.decode("latin-1").partition(":") for line in lines[1:]]
    names = [value.strip() for name, _, value in fields if name.lower() == "host"]
    has_body = any(name.lower() in ("content-length", "transfer-encoding") for name, _, _ in fields)
    return not has_body and len(names) <= 1 and is_our_name("".join(names), hosts)


class DormantPort:
    """A listener that answers health checks itself, and keeps connections for the next process that serves it."""

    def __init__(self, listener: socket.socket, hosts: Collection[str]) -> None:
        self._listener = listener
        self._hosts = hosts
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._asked = asyncio.Event()
        listener.setblocking(False)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the listener's descriptor, then those of the held connections."""
        return (self._listener.fileno(), *(connection.fileno() for connection in self._held))

    async def until_asked(self) -> None:
        """Listen until somebody asks for something that only the admin role can answer."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept)
        for connection in self._held:
            loop.add_reader(connection, self._look, connection)
        try:
            await self._asked.wait()
        finally:
            loop.remove_reader(self._listener)
            for connection, deadline in self._held.items():
                loop.remove_reader(connection)
                deadline.cancel()

    def hand_over(self) -> None:
        """Forget the connections: the process that was given them serves them."""
        self._asked.clear()
        for connection in list(self._held):
            self._drop(connection)

    def close(self) -> None:
        """Hang up on everybody, and stop listening."""
        self.hand_over()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # whoever it was has gone again, or there is no descriptor left
            return
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        while len(self._held) >= HTTP_BACKLOG:  # the one that has been waited for longest makes room
            self._drop(next(iter(self._held)))
        self._held[connection] = loop.call_later(HTTP_HEAD_S, self._drop, connection)
        loop.add_reader(connection, self._look, connection)

    def _look(self, connection: socket.socket) -> None:
        try:
            head = connection.recv(HTTP_HEAD_BYTES_MAX, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            head = b""
        if not head:
            self._drop(connection)
        elif is_health_check(head, self._hosts):
            with contextlib.suppress(OSError):
                connection.recv(len(head))
                connection.send(_HEALTHY)
            self._drop(connection)
        else:
            self._asked.set()

    def _drop(self, connection: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self._held.pop(connection).cancel()
        connection.close()


async def wait_unless(ending: asyncio.Event, waiting: Coroutine[None, None, None]) -> None:
    """Wait, but not past the end."""
    tasks = asyncio.create_task(waiting), asyncio.create_task(ending.wait())
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ProcessSupervisor:
    """Runs one plan until `stop` is called or a role cannot go on.

    Every process gets a socket as standard input. Nothing is ever sent to it: its end tells the child that this process
    is gone (`gateway.ops.supervisor.child`). What comes from it says that the child is ready (`report_ready`).
    A role that is on demand takes over `port`, which it serves until it ends."""

    def __init__(
        self, plan: ProcessPlan, *, clock: Clock, chance: Callable[[], float], say: Say, port: DormantPort | None = None
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._chance = chance
        self._say = say
        self._port = port
        self._living: dict[str, Process] = {}
        self._keepers: dict[str, list[asyncio.Task[None]]] = {}
        self._unready: set[str] = set()
        self._ready = asyncio.Event()
        self._ending = asyncio.Event()
        self._exit_code = EXIT_OK

    async def supervise(self) -> int:
        """Start, watch and stop everything; the exit code of the whole."""
        for role in self._plan.roles:
            names = [role.name if role.processes == 1 else f"{role.name}-{i + 1}" for i in range(role.processes)]
            self._keepers[role.name] = [asyncio.create_task(self._keep(role, name), name=name) for name in names]
            if not role.is_on_demand:
                self._unready.update(names)
        await self._ending.wait()
        for role in self._plan.roles:
            keepers = self._keepers[role.name]
            processes = [self._living[task.get_name()] for task in keepers if task.get_name() in self._living]
            await asyncio.gather(*(_end(process, role.grace_s) for process in processes))
            await asyncio.gather(*keepers)
            if processes:
                self._say("role stopped", role=role.name)
        return self._exit_code

    def stop(self) -> None:
        """Begin to stop in order; `supervise` returns when that is done."""
        self._ending.set()

    @property
    def is_stopping(self) -> bool:
        return self._ending.is_set()

    @property
    def unready(self) -> tuple[str, ...]:
        """Return the processes that have not said yet that they are ready, in alphabetical order."""
        return tuple(sorted(self._unready))

    async def until_ready(self) -> None:
        """Wait until each process that is not on demand has been ready once."""
        await self._ready.wait()

    async def _keep(self, role: RoleProcess, name: str) -> None:
        """Keep one process of a role running, life after life."""
        restarts = Restarts()
        while not self._ending.is_set():
            if role.is_on_demand and self._port is not None:
                await wait_unless(self._ending, self._port.until_asked())
                if self._ending.is_set():
                    return
            started_s = self._clock.monotonic_s()
            code = await self._live(role, name)
            if self._ending.is_set():
                return
            if role.is_on_demand and code == EXIT_OK:
                self._say("role rests until it is asked", role=name)
                continue
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
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                try:
                    process = self._living[name] = await _spawn(role, theirs, self._inherited(role))
                except OSError as error:
                    self._say("role cannot be started", role=name, error=str(error))
                    return EXIT_FAILED
            hearing = asyncio.create_task(self._hear(role, name, ours))
            try:
                self._say("role started", role=name, pid=process.pid)
                if self._ending.is_set():  # while it was being started, so nobody else will stop it
                    await _end(process, role.grace_s)
                return await process.wait()
            finally:
                del self._living[name]
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    def _inherited(self, role: RoleProcess) -> tuple[int, ...]:
        """Return the descriptors that a role takes over: the port's, if it is on demand."""
        return self._port.descriptors if role.is_on_demand and self._port is not None else ()

    async def _hear(self, role: RoleProcess, name: str, child: socket.socket) -> None:
        """Wait until a process says that it is ready."""
        child.setblocking(False)
        with contextlib.suppress(OSError):
            if await asyncio.get_running_loop().sock_recv(child, len(READY)) != READY:
                return
        if role.is_on_demand and self._port is not None:
            self._port.hand_over()
        self._unready.discard(name)
        if not self._unready:
            self._ready.set()

    async def _pause(self, delay_s: float) -> None:
        """Sleep, but not past the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._ending.wait()


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


async def _spawn(role: RoleProcess, stdin: socket.socket, inherited: Collection[int]) -> Process:
    """Start a new process in a session of its own, so that Ctrl-C reaches only the supervisor. It is told the
    descriptors that it inherits."""
    told = [f"{INHERITED}{descriptor}" for descriptor in inherited]
    return await asyncio.create_subprocess_exec(
        *(*role.command, *told), env=role.environment, stdin=stdin.fileno(), pass_fds=inherited, start_new_session=True
    )


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
