"""Several real servers on loopback: a primary with a replica under Sentinels, and a Cluster of three primaries.

Each server is a process of its own with its own directory, so that a test may kill, pause and start it again.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from gateway.bus.embedded import find_server
from tests.parts.ports import free_ports

SERVICE: Final = "spine"
PATIENT_MS: Final = 10_000  # a busy test machine is no outage
DURABLE: Final = {"save": "", "appendonly": "yes", "appendfsync": "no"}
"""Only processes die here, not the machine: each write is handed to the system before it is answered. With `everysec`
it is not, while the disk is busy: a kill then loses up to 2 s of what was answered."""
_PR_SET_PDEATHSIG: Final = 1
_READY_S: Final = 30.0
_LIBC: Final = ctypes.CDLL(None)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Return when `is_so()`; a server that is not up yet counts as no."""
    give_up_at = time.monotonic() + _READY_S
    while True:
        try:
            if is_so():
                return
        except (RedisError, OSError):
            pass
        assert time.monotonic() < give_up_at, f"not within {_READY_S:.0f} s: {what}"
        time.sleep(0.02)


@dataclass(eq=False)
class ValkeyProcess:
    """One server with its own directory. It dies with the test run."""

    home: Path
    port: int
    options: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    words: tuple[str, ...] = ()
    before: Callable[[], None] = lambda: None
    """Runs in the child before the server does."""
    host: str = "127.0.0.1"
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    def ask(self, *words: str | int, login: tuple[str | None, str | None] = (None, None)) -> Any:
        """One command on a connection of its own."""
        username, password = login
        client: Any = Redis(self.host, self.port, protocol=2, socket_timeout=10, username=username, password=password)
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    def start(self) -> None:
        """Start, or start again on the same data, and wait until it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        first: list[str] = []
        if self.config:
            path = self.home / "server.conf"
            if not path.exists():
                path.write_text(self.config)
            first = [str(path)]
        options = {
            "port": str(self.port),
            "bind": self.host,
            "dir": str(self.home),
            "logfile": str(self.home / "log"),
            "daemonize": "no",
            **self.options,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [str(find_server()), *first, *words, *self.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self._prepare,  # noqa: PLW1509 - one system call
        )
        wait_until(lambda: self.ask("PING") in (True, b"PONG"), f"an answer on port {self.port}")

    def grant_file_size(self) -> None:
        """Files may be of any size again."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def kill(self) -> None:
        """As a crash: nothing is written any more."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _prepare(self) -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        self.before()


def end_all(servers: Sequence[ValkeyProcess]) -> None:
    """Whatever state they are in."""
    for server in servers:
        if server.is_running:
            server.kill()


class SentinelSet:
    """A primary, a replica, and three Sentinels that watch them."""

    def __init__(
        self, home: Path, *, options: Mapping[str, str] | None = None, down_after_ms: int = PATIENT_MS
    ) -> None:
        self._down_after_ms = down_after_ms
        first, second, *watching = free_ports(5)
        data = {**DURABLE, "repl-diskless-sync-delay": "0"}
        data |= dict(options or {})
        self.servers = [
            ValkeyProcess(home / "a", first, data),
            ValkeyProcess(home / "b", second, {**data, "replicaof": f"127.0.0.1 {first}"}),
        ]
        self.sentinels = [
            ValkeyProcess(home / f"sentinel-{port}", port, config=self._config(first), words=("--sentinel",))
            for port in watching
        ]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def start(self) -> None:
        for server in (*self.servers, *self.sentinels):
            server.start()
        wait_until(lambda: self.replicas() == 1, "the replica")
        wait_until(self._is_watched, "three Sentinels that know each other and the replica")

    def stop(self) -> None:
        end_all([*self.sentinels, *self.servers])

    @property
    def primary(self) -> ValkeyProcess:
        """Whom the first Sentinel names now."""
        _, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replica(self) -> ValkeyProcess:
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def replicas(self) -> int:
        """How many replicas the primary has."""
        return int(self.primary.ask("INFO", "replication")["connected_slaves"])

    def fail_over(self) -> None:
        """An orderly change of the primary, without a crash. Back when the old one has become a replica: until
        then it takes writes that are lost."""
        heir, old = self.replica, self.primary
        self.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE, "COORDINATED")
        wait_until(lambda: self.primary is heir and old.ask("INFO", "replication")["role"] == "slave", "the failover")

    def await_successor(self, dead: ValkeyProcess) -> None:
        wait_until(
            lambda: self.primary is not dead and self.primary.ask("INFO", "replication")["role"] == "master",
            "a new primary",
        )

    def _is_watched(self) -> bool:
        for sentinel in self.sentinels:
            state = sentinel.ask("SENTINEL MASTERS")[SERVICE]
            if (state["num-other-sentinels"], state["num-slaves"]) != (2, 1):
                return False
        return True

    def _config(self, primary: int) -> str:
        return (
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {self._down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 4000\n"
        )


class ClusterSet:
    """Three primaries that share the slots; with `replicas`, so many of each. `machines` are where the servers run, in
    turn: an address and what brings a process there."""

    def __init__(
        self,
        home: Path,
        *,
        replicas: int = 0,
        node_timeout_ms: int = PATIENT_MS,
        machines: Sequence[tuple[str, Callable[[], None]]] = (("127.0.0.1", lambda: None),),
    ) -> None:
        count = 3 * (1 + replicas)
        ports = free_ports(2 * count)
        # Each row of three begins one machine later, so that a primary and its replicas are on different ones.
        places = [machines[(number + number // 3) % len(machines)] for number in range(count)]
        data = {
            **DURABLE,
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(node_timeout_ms),
            "cluster-require-full-coverage": "no",
            "protected-mode": "no",  # on other addresses than loopback it would answer nobody
            "repl-diskless-sync-delay": "0",
        }
        self.servers = [
            ValkeyProcess(home / str(port), port, {**data, "cluster-port": str(bus)}, before=enter, host=host)
            for port, bus, (host, enter) in zip(ports[:count], ports[count:], places, strict=True)
        ]
        self._bus_ports = ports[count:]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{server.host}:{server.port}" for server in self.servers)

    @property
    def primaries(self) -> list[ValkeyProcess]:
        """Those that own slots now, in the order of their slots."""
        rows = sorted(next(server for server in self.servers if server.is_running).ask("CLUSTER", "SLOTS"))
        by_port = {server.port: server for server in self.servers}
        return list(dict.fromkeys(by_port[row[2][1]] for row in rows))

    def start(self) -> None:
        for server in self.servers:
            server.start()
        first, *others = self.servers
        for server, bus in zip(others, self._bus_ports[1:], strict=True):
            first.ask("CLUSTER", "MEET", server.host, server.port, bus)
        borders = [0, 5461, 10923, 16384]
        for index, server in enumerate(self.servers[:3]):
            server.ask("CLUSTER", "ADDSLOTSRANGE", borders[index], borders[index + 1] - 1)
        wait_until(
            lambda: all(len(self._known(server)) == len(self.servers) for server in self.servers),
            "the nodes' greetings",
        )
        for number, replica in enumerate(self.servers[3:]):
            replica.ask("CLUSTER", "REPLICATE", self.id_of(self.servers[number % 3]))
        self.await_whole()

    def await_whole(self) -> None:
        """Wait until it is whole, and have the first three be the primaries again, as an operator would: two on one
        machine would be lost together, and the rest be no majority."""
        wait_until(self.is_whole, "a Cluster in order")
        for server in self.servers[:3]:
            if server.ask("INFO", "replication")["role"] == "slave":
                server.ask("CLUSTER", "FAILOVER")
        wait_until(lambda: set(self.primaries) == set(self.servers[:3]) and self.is_whole(), "the first three on top")

    def stop(self) -> None:
        end_all(self.servers)

    def is_whole(self) -> bool:
        """Every node of it is up, agrees that all slots are served, and every replica follows."""
        for server in self.servers:
            state = server.ask("CLUSTER INFO")
            if (state["cluster_state"], state["cluster_slots_ok"]) != ("ok", "16384"):
                return False
            replication = server.ask("INFO", "replication")
            if replication["role"] == "slave" and replication["master_link_status"] != "up":
                return False
        return sum(len(row) - 3 for row in self.servers[0].ask("CLUSTER", "SLOTS")) == len(self.servers) - 3

    def replica_of(self, primary: ValkeyProcess) -> ValkeyProcess:
        rows = primary.ask("CLUSTER", "SLOTS")
        port = next(row[3][1] for row in rows if row[2][1] == primary.port)
        return next(server for server in self.servers if server.port == port)

    def id_of(self, server: ValkeyProcess) -> str:
        return str(server.ask("CLUSTER", "MYID").decode())

    def _known(self, server: ValkeyProcess) -> list[str]:
        rows = server.ask("CLUSTER", "NODES").decode().splitlines()
        return [row for row in rows if "handshake" not in row and "disconnected" not in row]
