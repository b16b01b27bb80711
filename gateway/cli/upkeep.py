"""`trivet migrate|doctor|export|demo`: what an operator runs once in a while."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import ConfigOption, become, loaded_and_warned, private_file, say
from gateway.clock import SystemClock
from gateway.config import Loaded, database_url, masked_url, process_environment
from gateway.contracts.ids import SessionKey
from gateway.exits import EXIT_FAILED
from gateway.scrub import Scrubber


def migrate(
    config: ConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing when all is well.")] = False,
) -> None:
    """Bring the database up to date. Safe to run again, and while Trivet runs."""
    from gateway.store.migrations import migrate as migrated  # noqa: PLC0415 - start-up: only this needs Alembic

    url = database_url(loaded_and_warned(config).settings)
    applied = asyncio.run(migrated(url))
    if not quiet:
        say(f"{masked_url(url)}: {', '.join(applied) if applied else 'nothing to do'}")


def doctor(
    config: ConfigOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Call neither platforms nor models.")] = False,
) -> None:
    """Find what is wrong and say how to mend it: each model is asked for one token. The exit code is 1 when something
    is."""
    from gateway.doctor.examine import examine  # noqa: PLC0415 - start-up: only this needs every client
    from gateway.doctor.findings import as_table, is_healthy  # noqa: PLC0415 - as above

    found = asyncio.run(examine(loaded_and_warned(config), process_environment(), is_offline=offline))
    say(as_table(found))
    if not is_healthy(found):
        raise typer.Exit(EXIT_FAILED)


def export(
    key: Annotated[str, typer.Argument(help="A session key of the person, such as telegram:123456789.")],
    output: Annotated[Path | None, typer.Option(help="Where to write it. Without it: to standard output.")] = None,
    config: ConfigOption = None,
) -> None:
    """Write everything that is kept of a person as one JSON document."""
    document = asyncio.run(_exported(loaded_and_warned(config), SessionKey.parse(key).owner))
    if output is None:
        sys.stdout.buffer.write(document + b"\n")
    else:
        with private_file(output, "--output") as file:
            file.write(document)


def backup(
    output: Annotated[
        Path | None, typer.Option(help="Where to write it. Without it: a file named after the time, here.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write all that is kept on this machine into one archive, while Trivet runs. Unpacked, it is a data_dir."""
    from gateway.store.archive import archive  # noqa: PLC0415 - start-up
    from gateway.store.engine import sqlite_file  # noqa: PLC0415 - as above

    settings = loaded_and_warned(config).settings
    url = database_url(settings)
    database = sqlite_file(url)
    taken = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    path = output or Path(f"trivet-{taken:%Y%m%d-%H%M%S}.tar.gz")
    with private_file(path, "--output") as file:
        archived = archive(settings.data_dir, database, file, folder=path.parent)
    if archived.left_out:
        typer.echo(f"files and folders that could not be read, and are not in it: {archived.left_out}", err=True)
    if database is None:
        say(f"{path}: {archived.files} files. The database is on a server, copy it there: pg_dump of {masked_url(url)}")
    else:
        say(f"{path}: a database of {archived.database_bytes:,} bytes and {archived.files} files")


def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="Play scripted conversations, print them, check every reply.")
    ] = False,
) -> None:
    """Try everything on emulated platforms: no account, no key, no network."""
    become("gateway.demo", *(("--headless",) if headless else ()))


async def _exported(loaded: Loaded, owner: SessionKey) -> bytes:
    from gateway.store import open_store  # noqa: PLC0415 - start-up

    store = open_store(database_url(loaded.settings), SystemClock())
    try:
        await store.check_schema()
        return await store.people.export(owner, clean=Scrubber(loaded.secrets).scrub)
    finally:
        await store.close()
