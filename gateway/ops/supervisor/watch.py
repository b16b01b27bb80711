"""The supervision of a plan: starts processes, starts again those that die, stops everything in order, and holds the
port of a role that rests."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from gateway.contracts.errors import TrivetError
from gateway.limits import HTTP_BACKLOG, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_S
from gateway.ops.supervisor.plan import ProcessPlan, RoleProcess, plain_variables, python_module
from gateway.preflight import is_our_name
from gateway.process import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, FORK, INHERITED, PID_BYTES, READY

if TYPE_CHECKING:
    from gateway.contracts.ports import Clock  # loads all contracts, which the supervisor lives without

# The restarts of a role that died. Pure: time and chance come in as arguments.


FIRST_DELAY_S: Final = 0.2  # a crash by chance costs the users almost nothing
DELAY_MAX_S: Final = 30.0  # a role that cannot live still finds its cure within half a minute
STEADY_AFTER_S: Final = 60.0  # a process that lived this long did not die of its start
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


# Roles that start together are forks of one process: what both load is loaded once, and is in memory once for as long
# as nobody writes to it. `trivet up` begins that process before anything else and runs the command line in a fork of
# it, too; then it tells it how many roles to make. A role that starts again is executed by itself, and so are all of
# them where this fails.


_BECOME_PARENT: Final = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>: of those whose own parent ends
_FORK_S: Final = 30.0  # a second, on a disk that is awake
_ROOM: Final = "-" * 512  # longer than the command line that any role will show in its place
_STDIN: Final = 0
_MODULE_AT: Final = len(python_module("")) - 1


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """Such a process, a child of this one, which waits at `told`. It ends when that is closed."""

    pid: int
    told: socket.socket

    @classmethod
    def begin(cls) -> Self:
        """Execute it, with no variable that is ours: it needs none, and some hold secrets. Raises `OSError`."""
        os.close(os.pidfd_open(os.getpid()))  # not every system that has Linux's functions lets them be called
        environment = {name: value for name, value in plain_variables(os.environ) if not name.startswith("TRIVET_")}
        ours, theirs = socket.socketpair()
        with theirs:
            as_input = (os.POSIX_SPAWN_DUP2, theirs.fileno(), _STDIN)
            command = python_module(FORK, _ROOM)
            return cls(os.posix_spawn(command[0], command, environment, file_actions=[as_input]), ours)

    def run(self, *words: str) -> Any:
        """Run a module of ours in a fork that has our environment, and return what it hands over; end with its exit
        code when that is nothing. Raises `OSError` when there is no fork."""
        ours, theirs = socket.socketpair()
        with ours, ours.makefile("rb") as said:
            with theirs:
                self.ask(theirs)
            ours.sendall(_told(words, os.environ))
            if len(said.read(PID_BYTES)) < PID_BYTES:
                raise ChildProcessError
            if handed_over := said.read():
                return json.loads(handed_over)
        self.told.close()  # which the origin ends with, in the same way as its fork
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))

    def ask(self, *inputs: socket.socket) -> None:
        """Ask for forks with these standard inputs: first for one that runs the command line, or for none, then for the
        roles. Raises `OSError`."""
        socket.send_fds(self.told, [FORK.encode()], [each.fileno() for each in inputs])


def _told(words: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Write what a fork reads: what it is."""
    return json.dumps([words, dict(environment)]).encode() + b"\n"


class ForkedProcess:
    """A child that asyncio did not start, with what is needed here of its `Process`."""

    def __init__(self, pid: int) -> None:
        """Watch a child. Raises `OSError` if it is none."""
        self.pid = pid
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        self._descriptor = os.pidfd_open(pid)
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Wait for its end; the exit code, or the signal as a negative number."""
        return await asyncio.shield(self._code)

    def send_signal(self, number: int) -> None:
        """Send a signal. Raises `ProcessLookupError` when the process has ended."""
        if self._code.done():
            raise ProcessLookupError
        signal.pidfd_send_signal(self._descriptor, number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._code.set_result(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))


async def fork_together(
    roles: Mapping[str, RoleProcess], origin: ForkOrigin
) -> dict[str, tuple[ForkedProcess, socket.socket]]:
    """Start processes by their names, each with our end of its socket. Raises `OSError`; those that began all the same
    end by themselves. The origin ends in any case."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ours.enter_context(origin.told)
        ending = ForkedProcess(origin.pid)
        pairs = {name: socket.socketpair() for name in roles}
        ends = {name: ours.enter_context(end) for name, (end, _) in pairs.items()}
        inputs = [theirs.enter_context(end) for _, end in pairs.values()]
        ctypes.CDLL(None).prctl(_BECOME_PARENT, 1, 0, 0, 0)
        try:
            origin.ask(*inputs)
            theirs.close()
            await asyncio.wait_for(ending.wait(), _FORK_S)
        finally:
            ctypes.CDLL(None).prctl(_BECOME_PARENT, 0, 0, 0, 0)
            with contextlib.suppress(ProcessLookupError):
                ending.send_signal(signal.SIGKILL)
        forked = {}
        for name, role in roles.items():
            ends[name].setblocking(False)
            await loop.sock_sendall(ends[name], _told(role.command[_MODULE_AT:], role.environment))
            pid = await loop.sock_recv(ends[name], PID_BYTES)  # empty, and no process, if it has not begun
            forked[name] = ForkedProcess(int.from_bytes(pid, "little")), ends[name]
        origin.told.close()
        ours.pop_all()
        return forked


class ProcessSupervisor:
    """Runs one plan until `stop` is called or a role cannot go on.

    Every process gets a socket as standard input. Nothing is ever sent to it: its end tells the child that this process
    is gone (`gateway.ops.supervisor.child`). What comes from it says that the child is ready (`report_ready`).
    A role that is on demand takes over `port`, which it serves until it ends. `origin` may have begun before."""

    def __init__(
        self,
        plan: ProcessPlan,
        *,
        clock: Clock,
        chance: Callable[[], float],
        say: Say,
        port: DormantPort | None = None,
        origin: ForkOrigin | None = None,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._chance = chance
        self._say = say
        self._port = port
        self._origin = origin
        self._living: dict[str, Process | ForkedProcess] = {}
        self._forked: dict[str, tuple[ForkedProcess, socket.socket]] = {}
        self._keepers: dict[str, list[asyncio.Task[None]]] = {}
        self._unready: set[str] = set()
        self._ready = asyncio.Event()
        self._ending = asyncio.Event()
        self._exit_code = EXIT_OK

    async def supervise(self) -> int:
        """Start, watch and stop everything; the exit code of the whole."""
        processes = {name: role for role in self._plan.roles for name in _names(role)}
        self._unready.update(name for name, role in processes.items() if not role.is_on_demand)
        together = {name: role for name, role in processes.items() if name in self._unready and _can_be_forked(role)}
        if len(together) > 1:
            with contextlib.suppress(OSError):
                if self._origin is None:
                    self._origin = ForkOrigin.begin()
                    self._origin.ask()
                self._forked = await fork_together(together, self._origin)
        elif self._origin is not None:
            self._origin.told.close()
        for role in self._plan.roles:
            keepers = [asyncio.create_task(self._keep(role, name), name=name) for name in _names(role)]
            self._keepers[role.name] = keepers
        await self._ending.wait()
        for role in self._plan.roles:
            keepers = self._keepers[role.name]
            living = [self._living[task.get_name()] for task in keepers if task.get_name() in self._living]
            await asyncio.gather(*(_end(process, role.grace_s) for process in living))
            await asyncio.gather(*keepers)
            if living:
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
        while name in self._forked or not self._ending.is_set():
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
        if name in self._forked:
            return await self._watch(role, name, *self._forked.pop(name))
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await _spawn(role, theirs, self._inherited(role))
            except OSError as error:
                ours.close()
                self._say("role cannot be started", role=name, error=str(error))
                return EXIT_FAILED
        return await self._watch(role, name, process, ours)

    async def _watch(self, role: RoleProcess, name: str, process: Process | ForkedProcess, ours: socket.socket) -> int:
        self._living[name] = process
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
            ours.close()

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


def _names(role: RoleProcess) -> list[str]:
    return [role.name] if role.processes == 1 else [f"{role.name}-{i + 1}" for i in range(role.processes)]


def _can_be_forked(role: RoleProcess) -> bool:
    """Tell whether a role is a module of ours, on a system that tells of the end of children it did not start."""
    return hasattr(os, "pidfd_open") and role.command[:_MODULE_AT] == python_module("")[:_MODULE_AT]


async def _spawn(role: RoleProcess, stdin: socket.socket, inherited: Collection[int]) -> Process:
    """Start a new process in a session of its own, so that Ctrl-C reaches only the supervisor. It is told the
    descriptors that it inherits."""
    told = [f"{INHERITED}{descriptor}" for descriptor in inherited]
    return await asyncio.create_subprocess_exec(
        *(*role.command, *told), env=role.environment, stdin=stdin.fileno(), pass_fds=inherited, start_new_session=True
    )


async def _end(process: Process | ForkedProcess, grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


def _ending_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
