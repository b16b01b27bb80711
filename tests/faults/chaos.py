"""A seeded storm over a fleet: what breaks when, drawn from one seed, and how each thing is broken and mended.

    async with running_fleet(...) as fleet:
        storm = Storm(fleet, seed=7)
        raging = asyncio.create_task(storm.rage())
        ...                                    # people talk
        await storm.end()

Faults overlap. Each mends what it broke, so when the storm has ended everything is whole again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from tests.parts.fleet import RoleProcess, WiredFleet

LULL_S: Final = (0.3, 1.5)  # between the beginnings of two faults
AT_ONCE_MAX: Final = 3
PAUSE_S: Final = (3.5, 6.0)  # longer than a lease, which is 3 s
OUTAGE_S: Final = (0.2, 4.0)
DELAY_S: Final = (0.02, 0.3)

Break: TypeAlias = Callable[[], Awaitable[None]]


class Storm:
    """Draws faults until told to end. `schedule` says what happened when, for whoever has to repeat it."""

    def __init__(self, fleet: WiredFleet, *, seed: int) -> None:
        self._fleet = fleet
        self._chance = random.Random(seed)
        self._ending = asyncio.Event()
        self._busy: set[object] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._began_s = time.monotonic()
        self.schedule: list[str] = []
        self._faults: Mapping[Callable[[], tuple[object, str, Break]], int] = {
            self._kill_role: 6,
            self._pause_role: 3,
            self._kill_host: 1,
            self._cut_wire: 5,
            self._stop_wire: 3,
            self._half_open_wire: 2,
            self._slow_wire: 3,
            self._kill_valkey: 2,
            self._pause_valkey: 1,
            self._kill_database: 1,
            self._pause_database: 1,
            self._trouble_platform: 5,
        }

    async def rage(self) -> None:
        """One fault after the other, some at once."""
        while not self._ending.is_set():
            await self._lull(self._chance.uniform(*LULL_S))
            if len(self._running) >= AT_ONCE_MAX or self._ending.is_set():
                continue
            kind = self._chance.choices(list(self._faults), list(self._faults.values()))[0]
            target, text, happen = kind()
            if target in self._busy:
                continue
            self.schedule.append(f"{time.monotonic() - self._began_s:6.2f} s  {text}")
            task = asyncio.create_task(self._one(target, happen))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """No new faults; those that last are over when this returns, and everything is mended."""
        self._ending.set()
        await asyncio.gather(*self._running)
        for wire in self._fleet.wires:
            await wire.mend()
        for stage in self._fleet.stages.values():
            stage.faults.rate_limit = stage.faults.server_error = stage.faults.duplicate = 0
            stage.faults.drop_after = stage.faults.drop_before = 0

    async def _one(self, target: object, happen: Break) -> None:
        self._busy.add(target)
        try:
            await happen()
        finally:
            self._busy.discard(target)

    async def _lull(self, for_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._ending.wait()

    def _some_role(self) -> RoleProcess:
        return self._chance.choice(self._fleet.roles)

    # --- processes

    def _kill_role(self) -> tuple[object, str, Break]:
        role = self._some_role()
        return role.log_file, f"kill {role.host} {role.name}", role.kill

    def _pause_role(self) -> tuple[object, str, Break]:
        role, for_s = self._some_role(), self._chance.uniform(*PAUSE_S)

        async def pause() -> None:
            role.send(signal.SIGSTOP)
            await asyncio.sleep(for_s)
            role.send(signal.SIGCONT)

        return role.log_file, f"pause {role.host} {role.name} for {for_s:.1f} s", pause

    def _kill_host(self) -> tuple[object, str, Break]:
        host = self._chance.choice(list(self._fleet.hosts.values()))
        return host.name, f"kill all of {host.name}", host.kill

    # --- wires

    def _cut_wire(self) -> tuple[object, str, Break]:
        host, name, for_s = self._some_wire(OUTAGE_S)
        wire = self._fleet.hosts[host].wires[name]

        async def cut() -> None:
            await wire.cut()
            await asyncio.sleep(for_s)
            await wire.mend()

        return wire, f"cut {host} from {name} for {for_s:.1f} s", cut

    def _stop_wire(self) -> tuple[object, str, Break]:
        host, name, for_s = self._some_wire(PAUSE_S)
        wire = self._fleet.hosts[host].wires[name]

        async def stop() -> None:
            wire.stop()
            await asyncio.sleep(for_s)
            await wire.mend()

        return wire, f"hold back all between {host} and {name} for {for_s:.1f} s", stop

    def _half_open_wire(self) -> tuple[object, str, Break]:
        host, name, for_s = self._some_wire(PAUSE_S)
        wire = self._fleet.hosts[host].wires[name]

        async def swallow() -> None:
            wire.half_open()
            await asyncio.sleep(for_s)
            await wire.mend()

        return wire, f"swallow all between {host} and {name} for {for_s:.1f} s", swallow

    def _slow_wire(self) -> tuple[object, str, Break]:
        host, name, for_s = self._some_wire(PAUSE_S)
        wire, delay_s = self._fleet.hosts[host].wires[name], self._chance.uniform(*DELAY_S)

        async def slow() -> None:
            wire.delay_s = delay_s
            await asyncio.sleep(for_s)
            await wire.mend()

        return wire, f"slow {host} to {name} by {delay_s * 1000:.0f} ms for {for_s:.1f} s", slow

    def _some_wire(self, range_s: tuple[float, float]) -> tuple[str, str, float]:
        host = self._chance.choice(list(self._fleet.hosts.values()))
        return host.name, self._chance.choice(list(host.wires)), self._chance.uniform(*range_s)

    # --- servers

    def _kill_valkey(self) -> tuple[object, str, Break]:
        for_s = self._chance.uniform(*OUTAGE_S)

        async def kill() -> None:
            await self._fleet.kill_valkey()
            await asyncio.sleep(for_s)
            await self._fleet.valkey.start()

        return "valkey", f"kill valkey, start it after {for_s:.1f} s", kill

    def _pause_valkey(self) -> tuple[object, str, Break]:
        for_s = self._chance.uniform(*PAUSE_S)

        async def pause() -> None:
            self._fleet.signal_valkey(signal.SIGSTOP)
            await asyncio.sleep(for_s)
            self._fleet.signal_valkey(signal.SIGCONT)

        return "valkey", f"pause valkey for {for_s:.1f} s", pause

    def _kill_database(self) -> tuple[object, str, Break]:
        for_s = self._chance.uniform(*OUTAGE_S)

        async def kill() -> None:
            await self._fleet.database.kill()
            await asyncio.sleep(for_s)
            await self._fleet.database.start()

        return "database", f"kill postgresql, start it after {for_s:.1f} s", kill

    def _pause_database(self) -> tuple[object, str, Break]:
        for_s = self._chance.uniform(*PAUSE_S)

        async def pause() -> None:
            self._fleet.database.pause()
            await asyncio.sleep(for_s)
            self._fleet.database.resume()

        return "database", f"pause postgresql for {for_s:.1f} s", pause

    # --- platforms

    def _trouble_platform(self) -> tuple[object, str, Break]:
        name = self._chance.choice(list(self._fleet.stages))
        faults = self._fleet.stages[name].faults
        kind = self._chance.choice(("rate_limit", "server_error", "drop_after", "drop_before", "duplicate"))

        async def trouble() -> None:
            faults.retry_after_s = 0.5
            setattr(faults, kind, getattr(faults, kind) + 2)

        return (name, kind), f"{name}: {kind} twice", trouble
