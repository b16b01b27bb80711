"""The composition root of `trivet up`: embedded Valkey, the plan, the operator's port, signals, the ready line.

    python -m gateway.ops.supervisor OPTIONS

It loads no settings, no telemetry and no SQL: it lives as long as Trivet does, and each role checks its own settings.
`trivet up` has checked them before, and hands over `UpOptions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any, Final

import structlog

from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.contracts.errors import TrivetError
from gateway.ops.supervisor.plan import UpOptions, plan
from gateway.ops.supervisor.watch import DormantPort, ProcessSupervisor, keep_server
from gateway.preflight import at, listen
from gateway.process import guard_streams, run_to_exit
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import OwnRules, load_rules
from gateway.telemetry.logs import configure_logs

_PATIENCE_S: Final = 30.0  # after this long without being ready, the operator is told which process is not

log = structlog.get_logger("trivet.up")


def main() -> None:
    """Run everything until SIGTERM or SIGINT, or until a role cannot start as it is configured."""
    options = UpOptions.of_text(sys.argv[1])
    own = OwnRules(load_rules(Path(options.rules_file))) if options.rules_file else None
    configure_logs(Scrubber(own=own), level=options.log_level, as_json=options.log_as_json)
    guard_streams()
    sys.exit(asyncio.run(_up(options)))


async def _up(options: UpOptions) -> int:
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
        watch = ProcessSupervisor(
            plan(options, os.environ, given), clock=SystemClock(), chance=random.random, say=_say, port=port
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, watch.stop)
        tasks = [asyncio.create_task(_announce(options, watch))]
        if options.has_own_bus:
            tasks.append(asyncio.create_task(_keep_bus(server, watch)))
        code = await watch.supervise()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, TrivetError):
                raise outcome
        return code


async def _keep_bus(server: EmbeddedValkey, watch: ProcessSupervisor) -> None:
    """Keep the embedded server alive, once it serves; the roles wait for it meanwhile. Everything stops when the first
    one does not come up."""
    try:
        await server.until_ready()
    except TrivetError:
        watch.stop()
        raise
    await keep_server(server, clock=SystemClock(), chance=random.random, say=_say)


async def _announce(options: UpOptions, watch: ProcessSupervisor) -> None:
    """Announce in one line that everything is connected, or say which processes are not if that takes suspiciously
    long."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await watch.until_ready()
    except TimeoutError:
        _say("not ready yet", waiting_for=", ".join(watch.unready), reasons="trivet doctor, or /readyz, says why")
        await watch.until_ready()
    base = f"http://{at(options.http_host, options.http_port)}"
    sys.stdout.write(f"Trivet is ready: {base} (API at {base}/api/v1/docs, metrics at {base}/metrics)\n")
    sys.stdout.flush()


def _say(event: str, **facts: Any) -> None:
    log.info(event, **facts)


if __name__ == "__main__":
    run_to_exit(main)
