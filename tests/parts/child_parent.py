"""`python -m tests.parts.child_parent CONFINEMENT MARK`: a parent that is to be killed. It holds one child, which asks
a model that never answers, and says `up` when it does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from agent.subagents.protocol import ModelCall, ModelDelta, ModelResult
from agent.subagents.sandbox import find_confinement
from agent.subagents.supervisor import COMMAND, Supervisor
from gateway.clock import SystemClock
from gateway.scrub import Scrubber
from tests.parts.children import RecordingHost, command, order

STUBBORN = """
def live():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)
detached(live)
say("model_call", id="1")
live()
"""
"""Ignores whatever can be ignored, its pipe, too, and so does what it has begun."""


class Silent(RecordingHost):
    """Never answers."""

    async def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        sys.stdout.write("up\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
        yield ModelDelta(call.id, "")


async def main(confinement: str, mark: str) -> None:
    """In bubblewrap the child is a stubborn one; elsewhere it is our own, which does its part."""
    sandbox = await find_confinement(confinement, hidden=[Path.home()])
    program = command(STUBBORN) if confinement == "bubblewrap" else COMMAND
    await Supervisor(sandbox, Scrubber(), SystemClock(), command=(*program, mark)).supervise(order(), Silent())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
