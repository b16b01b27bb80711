"""The composition root of `trivet demo [--headless]`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final

from gateway.config import SCRIPTED_MODEL
from gateway.ops.demo.headless import play
from gateway.ops.demo.rig import demo_rig
from gateway.process import EXIT_FAILED, EXIT_OK, run_to_exit

HEADLESS: Final = "--headless"
_TRIES: Final = (
    "help",
    "Split this over three helpers: read the files, find the tests, write it up",
    "split slow 20 one | slow 20 two | slow 20 three",
    "orchestrate debate cats | dogs",
)
_QUIET: Final = {"TRIVET_LOG__LEVEL": "error"}  # the transcript is what one wants to read
_SCRIPTED: Final = {**_QUIET, "TRIVET_AGENT__MODEL": SCRIPTED_MODEL}


def main() -> None:
    """Run one kind of demo; the exit code says whether every reply came."""
    kind = _play_headless if HEADLESS in sys.argv[1:] else _open_playground
    sys.exit(asyncio.run(_until_stopped(kind())))


async def _play_headless() -> int:
    async with demo_rig(_SCRIPTED) as rig:
        missing = await play(rig, _write)
    if missing:
        sys.stderr.write("\n".join(("Missing:", *(f"- {sentence}" for sentence in missing), "")))
        return EXIT_FAILED
    _write("Every reply came, on every platform.")
    return EXIT_OK


async def _open_playground() -> int:
    async with demo_rig(_QUIET, tries=_TRIES) as rig:
        _write(f"Playground: {rig.playground_url}")
        _write(f"Task board: {rig.board_url} (any name, password {rig.admin_token})")
        if rig.model == SCRIPTED_MODEL:
            _write(f"Write to it, for example: {' · '.join(_TRIES)}")
        _write(f"Model: {rig.model}. Press Ctrl-C to end.")
        await asyncio.Event().wait()
    return EXIT_OK


async def _until_stopped(demo: Coroutine[Any, Any, int]) -> int:
    """Run the demo; SIGINT and SIGTERM end it in good order."""
    running = asyncio.create_task(demo)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return EXIT_OK if HEADLESS not in sys.argv[1:] else EXIT_FAILED


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run_to_exit(main)
