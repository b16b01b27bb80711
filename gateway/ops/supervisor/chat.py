"""The composition root of `trivet chat`: the terminal, and an agent for it where none is running.

With a `redis.url`, or while another Trivet owns the data directory, the terminal joins the running one. Otherwise
Valkey and one agent are started for as long as the talk goes on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.config import Loaded, load, own_hosts, process_environment
from gateway.contracts.errors import AlreadyRunning
from gateway.ops.supervisor.plan import UpOptions, plan
from gateway.ops.supervisor.watch import ProcessSupervisor
from gateway.process import run_to_exit
from gateway.scrub.vault import scrubber_of
from gateway.telemetry.logs import configure_logs

TERMINAL: Final = "channels.terminal"
_QUIET: Final = {"TRIVET_LOG__LEVEL": "error"}  # a log would talk into the talk


def main() -> None:
    """Talk until the input ends; the exit code is the terminal's."""
    loaded = load()
    configure_logs(scrubber_of(loaded), level="error", as_json=loaded.settings.log.as_json)
    sys.exit(asyncio.run(_chat(loaded)))


async def _chat(loaded: Loaded) -> int:
    async with _company(loaded) as options:
        for number in (signal.SIGINT, signal.SIGTERM):  # the terminal gets Ctrl-C too, and ends the talk
            asyncio.get_running_loop().add_signal_handler(number, lambda: None)
        terminal = await asyncio.create_subprocess_exec(sys.executable, "-m", TERMINAL, *options)
        return await terminal.wait()


@contextlib.asynccontextmanager
async def _company(loaded: Loaded) -> AsyncIterator[tuple[str, ...]]:
    """Find or start an agent that answers: one that runs already, otherwise a server and an agent of our own, for which
    the terminal has to be patient. Yields the terminal's options."""
    settings = loaded.settings
    server = EmbeddedValkey(settings.data_dir, memory_mb=settings.redis.memory_mb)
    if settings.redis.url:
        yield ()
        return
    try:
        url = await server.start()
    except AlreadyRunning:
        yield ()
        return
    given = {**_QUIET, "TRIVET_REDIS__URL": url}
    options = replace(UpOptions.of_settings(settings, own_hosts(settings)), agent_processes=1)
    watch = ProcessSupervisor(
        plan(options, process_environment(), given).only("agent"),
        clock=SystemClock(),
        chance=random.random,
        say=_say_nothing,
    )
    watching = asyncio.create_task(watch.supervise())
    try:
        yield ("--patient",)
    finally:
        watch.stop()
        await watching
        await server.stop()


def _say_nothing(event: str, **facts: Any) -> None:
    """Say nothing: the supervisor's events are of no interest in a talk."""


if __name__ == "__main__":
    run_to_exit(main)
