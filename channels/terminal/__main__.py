"""The composition root of `trivet chat`: one line on the terminal, until the input ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

from channels.inbound.keeping import keeping_for
from channels.line import Line, Rooms, Rules
from channels.terminal.adapter import KEY, TerminalAdapter
from gateway.bus.bus import open_bus
from gateway.bus.embedded import embedded_url
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.config import Settings, house_language, load
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.exits import run_to_exit
from gateway.scrub import Scrubber
from gateway.secrecy import scrubber_of, vault_keys
from gateway.telemetry.logs import configure_logs

STOP_GRACE_S = 2.0
PATIENT = "--patient"  # an agent was started together with this terminal
ALONE_AFTER_S = 30.0  # a busy machine needs more than ten to start one


def main() -> None:
    """Talk until the end of the input."""
    loaded = load()
    scrubber = scrubber_of(loaded, *vault_keys(loaded.settings))
    configure_logs(scrubber, level="warning", as_json=loaded.settings.log.as_json)
    asyncio.run(_chat(loaded.settings, scrubber))


async def _chat(settings: Settings, scrubber: Scrubber) -> None:
    bus = await open_bus(
        settings.redis.url or embedded_url(settings.data_dir),
        lane_messages_max=settings.queue.lane_messages_max,
        queue_messages_max=settings.queue.messages_max,
        user_turns_max=settings.queue.user_turns_max,
        wait_replicas=settings.redis.wait_replicas,
    )
    try:
        clock = SystemClock()
        adapter = TerminalAdapter(sys.stdin, sys.stdout, bus.operator, bus.lanes, clock)
        keeping = keeping_for(settings, bus.vault, scrubber, clock)
        rooms = Rooms.of(bus, scrubber, clock, keeping)
        policy = AccessPolicy(StrangerRule.CLOSED, frozenset({KEY}))
        rules = Rules(policy, settings.session.scope, language=house_language(settings))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, adapter.finished.set)
        warning = asyncio.create_task(_warn_when_alone(bus.operator))
        try:
            await _run(Line(adapter, rooms, rules, consumer=bus.names.named(socket.gethostname())), adapter)
        finally:
            warning.cancel()
    finally:
        await bus.close()


async def _warn_when_alone(operator: Operator) -> None:
    """An agent that was started with the talk needs a moment; after that, silence has a reason."""
    await asyncio.sleep(ALONE_AFTER_S if PATIENT in sys.argv else 0)
    if not (await operator.figures()).workers_alive:
        sys.stderr.write("trivet: no agent is running, so nobody answers yet: start `trivet up` or `trivet agent`\n")


async def _run(line: Line, adapter: TerminalAdapter) -> None:
    working = asyncio.create_task(line.run())
    finished = asyncio.create_task(adapter.finished.wait())
    try:
        await asyncio.wait((working, finished), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        await line.stop(grace_s=STOP_GRACE_S)
    finally:
        for task in (working, finished):
            task.cancel()
        await asyncio.gather(working, finished, return_exceptions=True)


if __name__ == "__main__":
    run_to_exit(main)
