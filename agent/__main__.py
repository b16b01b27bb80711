"""The composition root of the agent role: `python -m agent [--migrate]`.

The database comes first, where it is told to bring it up to date: the other roles wait for the bus to be named, and
nothing of an agent is needed for that."""

from __future__ import annotations

import sys

import uvloop

from gateway.config import load, process_environment
from gateway.config.secrets import secrets_in_files
from gateway.process import MIGRATE, guard_streams, run_to_exit, stop_event
from gateway.scrub.vault import scrubber_of, vault_keys
from gateway.telemetry.logs import configure_logs
from gateway.upgrade import bring_up_to_date


def main() -> None:
    """Run the role; it ends with one sentence and the code that the supervisor understands."""
    run_to_exit(_program)


def _program() -> None:
    loaded = load()
    keys = (*vault_keys(loaded.settings), *secrets_in_files(loaded.settings, process_environment()))
    scrubber = scrubber_of(loaded, *keys)
    configure_logs(scrubber, level=loaded.settings.log.level.value, as_json=loaded.settings.log.as_json)
    guard_streams()
    if MIGRATE in sys.argv[1:]:
        uvloop.run(bring_up_to_date(loaded.settings))
    from agent.assembly import serve  # noqa: PLC0415 - start-up: the other roles wait for the lines above

    async def serve_until_signalled() -> None:
        await serve(loaded.settings, scrubber, stop_event())

    uvloop.run(serve_until_signalled())


if __name__ == "__main__":
    main()
