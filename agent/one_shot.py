"""One-shot programs of ours: asked one thing, they say the answer on standard output and end. They keep nothing.

A failure is one sentence and a code, as of every program of ours.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from gateway.config import Settings, load
from gateway.config.models import keys_in_files
from gateway.exits import run_to_exit
from gateway.scrub import Scrubber
from gateway.telemetry import crashes
from gateway.telemetry.logs import configure_logs


def answer_once(asked: Callable[[Settings, Scrubber], Coroutine[Any, Any, str]]) -> NoReturn:
    """Be such a program: what `asked` returns is the answer."""

    def program() -> None:
        loaded = load()
        scrubber = Scrubber((*loaded.secrets, *keys_in_files(loaded.settings.models)))
        crashes.speak_with(scrubber)
        configure_logs(scrubber, level="error", as_json=False)
        sys.stdout.write(f"{asyncio.run(asked(loaded.settings, scrubber))}\n")

    run_to_exit(program)
