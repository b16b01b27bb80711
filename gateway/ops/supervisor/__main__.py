"""The composition root of `trivet up`: embedded Valkey, the plan, the operator's port, signals, the ready line.

    python -m gateway.ops.supervisor OPTIONS

It loads no settings, no telemetry, no SQL and, until something goes wrong, no scrubber: it lives as long as Trivet
does, and each role checks its own settings. `trivet up` has checked them before, and hands over `UpOptions`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.contracts.errors import TrivetError
from gateway.ops.supervisor.plan import UpOptions, plan
from gateway.ops.supervisor.watch import DormantPort, ForkOrigin, ProcessSupervisor, Say, keep_server
from gateway.preflight import at, listen
from gateway.process import EXIT_OK, guard_streams, run_to_exit, scrubbed, use_scrubber

FORKED: Final = "--forked"
"""Tells the command line that it runs in a fork of the roles' origin: `hand_over` is how `up` ends."""

_STDIN: Final = 0
_PATIENCE_S: Final = 30.0  # after this long without being ready, the operator is told which process is not
_OURS: Final = frozenset({"role", "pid", "ended", "again_in_s", "waiting_for", "reasons"})
"""Facts that are names and numbers of ours. Any other may hold what somebody else said."""


class EventLog:
    """What the supervisor says, in the lines that its roles' logs have, without what they log with: 8 MB, most of it
    the scrubber, which the first error loads."""

    def __init__(self, level: str, *, as_json: bool) -> None:
        self._is_on = level in ("debug", "info")
        self._as_json = as_json

    def __call__(self, event: str, **facts: Any) -> None:
        """Write a constant of ours and its facts to standard error."""
        if not self._is_on:
            return
        shown = {name: fact if name in _OURS else scrubbed(str(fact)) for name, fact in facts.items()}
        at_time = f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        if self._as_json:
            whole = {**shown, "event": event, "logger": "trivet.up", "level": "info", "timestamp": at_time}
            line = json.dumps(whole, ensure_ascii=False)
        else:
            words = (f"{name}={repr(fact) if ' ' in str(fact) else fact}" for name, fact in sorted(shown.items()))
            line = f"{at_time} [info     ] {event:<30} [trivet.up] {' '.join(words)}"
        _write(sys.__stderr__, line)


def main() -> None:
    """Run the supervisor as a program of its own."""
    supervise(sys.argv[1], {})


def hand_over(options: UpOptions, given: Mapping[str, str]) -> NoReturn:
    """End a command line that runs in a fork: the supervisor, which waits for that, goes on with these options, and
    with these variables in its environment."""
    sys.stdout.flush()
    with open(_STDIN, "w", closefd=False) as told:
        json.dump([options.as_text(), given], told)
    os._exit(EXIT_OK)  # to take the interpreter apart would copy all that the fork shares


def supervise(text: str, given: Mapping[str, str], origin: ForkOrigin | None = None) -> NoReturn:
    """Run everything, as these options say, until SIGTERM or SIGINT, or until a role cannot start as it is
    configured."""
    options = UpOptions.of_text(text)
    os.environ.update(given)
    if options.rules_file:
        from gateway.scrub import Scrubber  # noqa: PLC0415 - start-up: few have rules of their own
        from gateway.scrub.own_rules import OwnRules, load_rules  # noqa: PLC0415 - as above

        use_scrubber(Scrubber(own=OwnRules(load_rules(Path(options.rules_file)))))
    say = EventLog(options.log_level, as_json=options.log_as_json)
    guard_streams()
    sys.exit(asyncio.run(_up(options, say, origin)))


async def _up(options: UpOptions, say: Say, origin: ForkOrigin | None) -> int:
    async with contextlib.AsyncExitStack() as stack:
        given: dict[str, str] = {}
        server = EmbeddedValkey(Path(options.data_dir), memory_mb=options.redis_memory_mb)
        if options.has_own_bus:
            stack.push_async_callback(server.stop)
            given["TRIVET_REDIS__URL"] = await server.launch()
        port = None
        if options.admin_on_demand:
            listener = listen(options.http_host, options.http_port, "http.port")
            port = stack.enter_context(contextlib.closing(DormantPort(listener, options.hosts)))
        chance, planned = random.random, plan(options, os.environ, given)
        watch = ProcessSupervisor(planned, clock=SystemClock(), chance=chance, say=say, port=port, origin=origin)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, watch.stop)
        tasks = [asyncio.create_task(_announce(options, watch, say))]
        if options.has_own_bus:
            tasks.append(asyncio.create_task(_keep_bus(server, watch, say)))
        code = await watch.supervise()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, TrivetError):
                raise outcome
        return code


async def _keep_bus(server: EmbeddedValkey, watch: ProcessSupervisor, say: Say) -> None:
    """Keep the embedded server alive, once it serves; the roles wait for it meanwhile. Everything stops when the first
    one does not come up."""
    try:
        await server.until_ready()
    except TrivetError:
        watch.stop()
        raise
    await keep_server(server, clock=SystemClock(), chance=random.random, say=say)


async def _announce(options: UpOptions, watch: ProcessSupervisor, say: Say) -> None:
    """Announce in one line that everything is connected, or say which processes are not if that takes suspiciously
    long."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await watch.until_ready()
    except TimeoutError:
        say("not ready yet", waiting_for=", ".join(watch.unready), reasons="trivet doctor, or /readyz, says why")
        await watch.until_ready()
    base = f"http://{at(options.http_host, options.http_port)}"
    _write(sys.__stdout__, f"Trivet is ready: {base} (API at {base}/api/v1/docs, metrics at {base}/metrics)")


def _write(stream: TextIO | None, line: str) -> None:
    """Write a line that needs no scrubber, past `ScrubbedStream`."""
    if stream is not None:
        stream.write(f"{line}\n")
        stream.flush()


if __name__ == "__main__":
    run_to_exit(main)
