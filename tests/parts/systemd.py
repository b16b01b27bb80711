"""A unit of `deploy/systemd`, done by as a service manager would, below a directory in place of `/`.

Of systemd it knows what those units say of life and death: `ExecStart`, `Environment`, `EnvironmentFile`, `Restart`,
`RestartSec`, `RestartPreventExitStatus`, `KillMode=mixed`, `TimeoutStopSec`. What they say of confinement it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.parts.waiting import PATIENCE_S

_OURS: Final = ("/opt/", "/etc/", "/var/")


@dataclass(slots=True)
class Unit:
    """One service: `endings` are the exit codes of its lives."""

    file: Path
    root: Path
    process: Process | None = None
    endings: list[int] = field(default_factory=list)
    _keeping: asyncio.Task[None] | None = None

    @property
    def log_file(self) -> Path:
        """What the journal would hold."""
        return self.root / "journal"

    @property
    def log(self) -> str:
        """What it wrote, in all its lives."""
        return self.log_file.read_text("utf-8", "replace") if self.log_file.exists() else ""

    async def start(self) -> None:
        """`systemctl start`: from here on it is started again as the unit says."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep(), name=f"unit-{self.file.stem}")

    async def stop(self) -> None:
        """`systemctl stop`: SIGTERM to the main process, SIGKILL to what is left of all when it has ended, or after
        the time that the unit gives it."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        process = self.process
        if process is None or process.returncode is not None:
            return
        assert self._one("KillMode") == "mixed"
        everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(self._one("TimeoutStopSec"))):
                await process.wait()
        for left in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        self.endings.append(await asyncio.wait_for(process.wait(), PATIENCE_S))

    async def restart(self) -> None:
        """`systemctl restart`."""
        await self.stop()
        await self.start()

    async def ended(self) -> int:
        """Wait until it is given up: an exit code with which it is not started again."""
        assert self._keeping is not None
        await asyncio.wait_for(self._keeping, PATIENCE_S)
        return self.endings[-1]

    def here(self, text: str) -> str:
        """A path of the machine, below our root."""
        return f"{self.root}{text}" if text.startswith(_OURS) else text

    async def _keep(self) -> None:
        while True:
            assert self.process is not None
            self.endings.append(await self.process.wait())
            if self.endings[-1] == 0 or str(self.endings[-1]) in self._all("RestartPreventExitStatus"):
                return
            assert self._one("Restart") == "on-failure"
            await asyncio.sleep(float(self._one("RestartSec")))
            await self._spawn()

    async def _spawn(self) -> None:
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *[self.here(word) for word in shlex.split(self._one("ExecStart"))],
                env=self._environment(),
                cwd=self.root,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=int(self._one("UMask"), 8),
            )

    def _environment(self) -> dict[str, str]:
        lines = list(self._all("Environment"))
        for name in self._all("EnvironmentFile"):
            lines.extend(Path(self.here(name.removeprefix("-"))).read_text().splitlines())
        told = (line.partition("=") for line in lines)
        plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": self.here("/var/lib/trivet")}
        return plain | {name: self.here(value) for name, _, value in told}

    def _one(self, name: str) -> str:
        [value] = self._all(name)
        return value

    def _all(self, name: str) -> Sequence[str]:
        lines = self.file.read_text("utf-8").splitlines()
        return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]
