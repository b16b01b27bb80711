"""Commands that an operator runs once in a while: `trivet
status|logs|doctor|plugins|export|erase|backup|restore|migrate`, `trivet installation|demo|config|scrub|mcp`."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, database_url, masked_url, process_environment
from gateway.config.secrets import names_a_secret
from gateway.config.show import as_table, env_example, json_schema, rows
from gateway.contracts.errors import AlreadyRunning, BusError, ConfigError, PluginBroken, StoreError, TrivetError
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.contracts.ports import LogLine
from gateway.limits import LOG_LINES_EVERY_S, LOG_LINES_KEPT
from gateway.ops.cli.common import (
    ConfigOption,
    JsonOption,
    become,
    become_role,
    checked_store,
    coloured,
    loaded_and_warned,
    private_file,
    running_installation,
    say,
    say_document,
    scrubber_of_command,
    working,
)
from gateway.process import EXIT_FAILED, scrubbed
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import OwnRules, read_rules

if TYPE_CHECKING:
    from gateway.ops.admin.views import Erased


_UNITS: Final = "trivet*"
_COLOURS: Final = {"ok": "green", "warning": "yellow", "wrong": "red"}


def migrate(
    config: ConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing when all is well.")] = False,
) -> None:
    """Bring the database up to date, and tell a bus that answers whose it is. Safe to run again, and while Trivet
    runs."""
    from gateway.upgrade import migrate_and_name  # noqa: PLC0415 - start-up: it needs the database and the bus

    settings = loaded_and_warned(config).settings
    applied = asyncio.run(migrate_and_name(settings))
    if not quiet:
        say(f"{masked_url(database_url(settings))}: {', '.join(applied) if applied else 'nothing to do'}")


def installation(
    config: ConfigOption = None,
    new: Annotated[bool, typer.Option("--new", help="Name the database anew: a copy beside its original.")] = False,
    take_bus: Annotated[
        bool, typer.Option("--take-bus", help="The bus is the database's own, whatever it says; end its roles first.")
    ] = False,
) -> None:
    """Show which installation database and bus belong to; two of them share neither. The exit code is 1 where they
    differ."""
    settings = loaded_and_warned(config).settings
    own, named = asyncio.run(_installation(settings, is_new=new, takes_bus=take_bus))
    say(f"database: {own}\nbus: {named or 'nobody has told it yet'}")
    if named not in ("", own):
        raise typer.Exit(EXIT_FAILED)


def doctor(
    config: ConfigOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Call neither platforms nor models.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find what is wrong and say how to mend it: each model is asked for one token. The exit code is 1 when something
    is."""
    from gateway.ops.doctor import as_table, is_healthy  # noqa: PLC0415 - as above
    from gateway.ops.doctor.checks import examine  # noqa: PLC0415 - start-up: only this needs every client

    loaded = loaded_and_warned(config)
    with working("Looking …"):
        found = asyncio.run(examine(loaded, process_environment(), is_offline=offline))
    if as_json:
        say_document([asdict(each) for each in found])
    else:
        say(as_table(found, paint=lambda state, text: coloured(text, _COLOURS[state])))
    if not is_healthy(found):
        raise typer.Exit(EXIT_FAILED)


def plugins(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the installed plug-ins and what each adds. Only those that plugins.enabled names are imported; the exit code
    is 1 when one of these cannot be used."""
    from gateway.packages import canonical_name, installed_packages  # noqa: PLC0415 - start-up

    enabled = {canonical_name(name): name for name in loaded_and_warned(config).settings.plugins.enabled}
    installed = {canonical_name(name): name for name in installed_packages()}
    found = [_plugin(name, is_enabled=key in enabled) for key, name in (installed | enabled).items()]
    if as_json:
        say_document(found)
    else:
        say("\n".join(map(_plugin_text, found)) or "No plug-in is installed.")
    if any(part["error"] for plugin in found for part in (plugin, *plugin["adds"])):
        raise typer.Exit(EXIT_FAILED)


def _plugin(package: str, *, is_enabled: bool) -> dict[str, Any]:
    from gateway.packages import parts_of  # noqa: PLC0415 - start-up
    from gateway.plugins import describe  # noqa: PLC0415 - start-up

    row: dict[str, Any] = {"package": package, "version": "", "enabled": is_enabled, "adds": [], "error": ""}
    try:
        for part in parts_of(package):
            error = ""
            try:
                detail = describe(part) if is_enabled else ""
            except PluginBroken as broken:
                error, detail = str(broken), ""
            row["version"] = part.version
            row["adds"].append({"kind": part.kind.value, "name": part.name, "detail": detail, "error": error})
    except PluginBroken as broken:
        row["error"] = str(broken)
    return row


def _plugin_text(row: Mapping[str, Any]) -> str:
    lines = [f"{row['package']} {row['version']}  {'enabled' if row['enabled'] else 'not enabled'}"]
    for part in row["adds"]:
        lines.append(f"  {part['kind']:<8}  {part['name']}" + (f"  {part['detail']}" if part["detail"] else ""))
        lines += [f"  -> {part['error']}"] if part["error"] else []
    return "\n".join([*lines, *([f"  -> {row['error']}"] if row["error"] else [])])


mcp = typer.Typer(help="MCP servers.", no_args_is_help=True)


@mcp.command("login")
def log_in_at_server(
    server: Annotated[str, typer.Argument(help="Its name in tools.mcp or tools.mcp_file.")], config: ConfigOption = None
) -> None:
    """Log in at an MCP server by OAuth: prints the address to open in a browser, which may run elsewhere, and reads
    where it ended."""
    become_role(loaded_and_warned(config), "agent.trial", "login", server)


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
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Take the configuration file as it is; else without its secrets.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write all that is kept on this machine into one archive, while Trivet runs: database, files, settings, and what
    waits in a queue of our own. Unpacked, it is a data_dir; `trivet restore` does that, and looks whether it is
    whole."""
    from gateway.store.archive import archive  # noqa: PLC0415 - start-up
    from gateway.store.engine import sqlite_file  # noqa: PLC0415 - as above

    loaded = loaded_and_warned(config)
    settings, url = loaded.settings, database_url(loaded.settings)
    database = sqlite_file(url)
    written = loaded.path.read_text("utf-8") if loaded.path else ""
    taken = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    path = output or Path(f"trivet-{taken:%Y%m%d-%H%M%S}.tar.gz")
    with private_file(path, "--output") as file, working(f"Writing {path} …"):
        archived = archive(
            settings.data_dir,
            database,
            file,
            folder=path.parent,
            settings=written if with_secrets else scrubbed(written),
        )
    if archived.left_out:
        typer.echo(f"files and folders that could not be read, and are not in it: {archived.left_out}", err=True)
    if database is None:
        say(f"{path}: {archived.files} files. The database is on a server, copy it there: pg_dump of {masked_url(url)}")
    else:
        queue = ", and what waits for an answer" if archived.has_queue else ""
        say(f"{path}: a database of {archived.database_bytes:,} bytes and {archived.files} files{queue}")


def restore(
    archive: Annotated[Path, typer.Argument(help="What `trivet backup` wrote.")],
    with_queue: Annotated[
        bool,
        typer.Option(
            "--with-queue",
            help="Answer what waited then, too; only where nothing has answered since, or it is answered twice.",
        ),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Unpack a backup as data_dir, which must not exist or be empty, and look whether its database is whole. Nothing
    else may use that data_dir meanwhile."""
    from gateway.store.archive import restore as unpack  # noqa: PLC0415 - start-up

    data_dir = loaded_and_warned(config).settings.data_dir
    try:
        with archive.open("rb") as file, working(f"Unpacking {archive} …"):
            restored = unpack(file, data_dir, takes_queue=with_queue)
    except OSError as error:
        raise ConfigError(f"{archive} cannot be unpacked to {data_dir} ({error.strerror})") from error
    counted = ", ".join(f"{count:,} {name}" for name, count in (restored.rows or {}).items())
    say(f"{data_dir}: {restored.files} files; {counted or 'no database: it is on a server, restore it there'}")
    if restored.left_out:
        typer.echo(f"links that lead elsewhere, and what lay too deep, left out: {restored.left_out}", err=True)
    if restored.has_queue:
        say(f"What waited for an answer then {'waits again' if with_queue else 'stays in the archive: --with-queue'}.")
    if restored.settings is not None:
        say(f"The settings of that time: {restored.settings}; name them with --config to have them in force.")


def erase(
    key: Annotated[str, typer.Argument(help="A session key of the person, such as telegram:123456789.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Delete every trace of a person, at all linked accounts: conversations, memory, files, grants, waiting messages.
    `trivet export` before shows what that is. It cannot be undone."""
    owner = SessionKey.parse(key).owner
    loaded = loaded_and_warned(config)
    if not yes:
        typer.confirm(f"Delete all that is kept of {owner}?", abort=True)
    erased = asyncio.run(_erased(loaded, owner))
    for table, count in erased.rows.items():
        say(f"{count:>8}  {table}")
    say(f"Nothing is kept of {erased.key} any more." if erased.rows else f"Nothing was kept of {erased.key}.")


async def _erased(loaded: Loaded, owner: SessionKey) -> Erased:
    from gateway.ops.admin.people import PersonEraser  # noqa: PLC0415 - start-up

    workspaces = loaded.settings.data_dir / WORKSPACES
    async with running_installation(loaded) as (store, bus, keeper):
        eraser = PersonEraser(store, keeper, bus.operator, bus.lanes, bus.vault, SystemClock(), workspaces)
        return await eraser.erase(owner)


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show how a running Trivet is: channels, agents, queue, who waits to be let in. The exit code is 1 where something
    is missing."""
    loaded = loaded_and_warned(config)
    state = asyncio.run(_state(loaded))
    if as_json:
        say_document(state)
    else:
        for line in state_lines(state):
            say(line)
    if state["reasons"]:
        raise typer.Exit(EXIT_FAILED)


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="The newest of them.")] = 100,
    about: Annotated[
        str, typer.Option(metavar="ID", help="Only lines with this id: of a turn, a message, a reply, a lane.")
    ] = "",
    config: ConfigOption = None,
) -> None:
    """Show what all processes logged: the journal of the units of deploy/systemd; where there is none, the newest lines
    of the last day, which the bus keeps and erases with each person."""
    journal = shutil.which("journalctl")
    chosen = ("--unit", _UNITS, "--output", "cat")
    if journal is None or not _has_lines((journal, *chosen, "--lines", "1")):
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_say_lines(loaded_and_warned(config), lines, about, is_followed=follow))
        return
    wanted = (*chosen, "--lines", str(lines), *(("--follow",) if follow else ()), *(("--grep", about) if about else ()))
    sys.stdout.flush()
    os.execve(journal, (journal, *wanted), _without_secrets())  # noqa: S606 - the system's own program


async def _say_lines(loaded: Loaded, count: int, about: str, *, is_followed: bool) -> None:
    """Say the newest `count` lines with `about` in them, oldest first, and, if it is followed, what comes then."""
    async with running_installation(loaded) as (_, bus, _keeper):
        said: Sequence[LogLine] = ()
        while True:
            kept = await bus.operator.log_lines(LOG_LINES_KEPT)
            known = set(said)
            new = [line for line in kept if line not in known and about in line.text]
            for line in reversed(new if said else new[:count]):
                say(line.text)
            if not is_followed:
                return
            said = kept or said
            await asyncio.sleep(LOG_LINES_EVERY_S)


def _has_lines(command: Sequence[str]) -> bool:
    found = subprocess.run(command, capture_output=True, check=False, env=_without_secrets())  # noqa: S603 - as above
    return bool(found.stdout.strip())


def _without_secrets() -> dict[str, str]:
    return {name: value for name, value in process_environment().items() if not names_a_secret(name)}


async def _state(loaded: Loaded) -> dict[str, Any]:
    """Collect the queue as the API shows it, who waits, and what is wrong, in words."""
    from gateway.ops.admin.health import in_words, reasons  # noqa: PLC0415 - start-up
    from gateway.ops.admin.views import QueueView, moment  # noqa: PLC0415 - start-up

    try:
        async with running_installation(loaded) as (_, bus, keeper):
            figures = await bus.operator.figures()
            found = list(reasons(figures, channels=loaded.settings.channels.enabled_names, database_problem=""))
            return {
                **QueueView.of(figures, at=moment(SystemClock().now_ms())).model_dump(mode="json"),
                "strangers": len(await keeper.bus.pairings()),
                "models": [in_words(each) for each in await bus.operator.model_troubles()],
                "reasons": found,
            }
    except (BusError, StoreError) as error:
        return {"reasons": [str(error)]}


def state_lines(state: Mapping[str, Any]) -> Iterator[str]:
    """Write the state for people: a line for each part that there is, the next command where there is one. Pure but
    for colours, which are a terminal's."""
    if "messages" in state:
        for name, how in state["channels"].items():
            yield f"{name:<11}  {coloured(how, 'green' if how == 'connected' else 'red')}"
        yield f"{'agents':<11}  {state['agent_processes']} alive"
        waiting = f", the oldest for {state['oldest_wait_ms'] / 1000:.0f} s" if state["oldest_wait_ms"] else ""
        yield f"{'queue':<11}  {state['messages']} to answer, {state['lanes_running']} running{waiting}"
        yield f"{'replies':<11}  {sum(state['replies_unsent'].values())} on their way"
        if state["strangers"]:
            yield f"{'strangers':<11}  {state['strangers']} wait to be let in: trivet pair list"
        if state["dead_letters"]:
            yield f"{'dead':<11}  {coloured(str(state['dead_letters']), 'yellow')} given up: trivet dead list"
        for trouble in state["models"]:
            yield f"{'model':<11}  {coloured(trouble, 'yellow')}"
    for reason in state["reasons"]:
        yield f"{coloured('not ready', 'red'):<11}  {reason}"
    if not state["reasons"]:
        yield coloured("ready", "green")


def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="Play scripted conversations, print them, check every reply.")
    ] = False,
    emulators: Annotated[
        bool,
        typer.Option("--emulators", help="Only the platforms, for a Trivet of your own; prints the settings for it."),
    ] = False,
) -> None:
    """Try everything on emulated platforms: no account, no key, no network."""
    kinds = {"--headless": headless, "--emulators": emulators}
    become("gateway.ops.demo", *(kind for kind, is_asked in kinds.items() if is_asked))


async def _exported(loaded: Loaded, owner: SessionKey) -> bytes:
    async with checked_store(loaded.settings) as store:
        return await store.people.export(owner, clean=scrubber_of_command(loaded).scrub)


async def _installation(settings: Settings, *, is_new: bool, takes_bus: bool) -> tuple[str, str]:
    """Return the names that database and bus have in the end; empty for a bus that has none."""
    from gateway.bus.bus import open_bus  # noqa: PLC0415 - start-up
    from gateway.bus.inspection import inspect_bus  # noqa: PLC0415 - start-up

    async with checked_store(settings) as store, _served_bus(settings) as url:
        own = await (store.renew_installation() if is_new else store.installation())
        named = (await inspect_bus(url)).installation
        if takes_bus:
            async with await open_bus(url, installation=named or own) as bus:
                await bus.give_to(own)
        return own, own if takes_bus else named


@contextlib.asynccontextmanager
async def _served_bus(settings: Settings) -> AsyncIterator[str]:
    """Yield the address of the bus; Trivet's own server is started for as long as it is needed, unless it runs."""
    from gateway.bus.embedded import EmbeddedValkey  # noqa: PLC0415 - start-up

    if settings.redis.url:
        yield settings.redis.url
        return
    server = EmbeddedValkey(settings.data_dir)
    with contextlib.suppress(AlreadyRunning):
        await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


# `trivet config schema|show|env`.


app = typer.Typer(no_args_is_help=True, help="Look at the configuration.")


@app.command()
def schema() -> None:
    """Print every key with its type, default and meaning, as a JSON Schema."""
    typer.echo(json_schema())


@app.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every key with the value in force and where it comes from. Secrets are masked, and of tool servers neither
    arguments nor paths are shown: keys may be there."""
    loaded = loaded_and_warned(config)
    if as_json:
        say_document([{"key": key, "value": value, "source": source} for key, value, source in rows(loaded)])
    else:
        say(as_table(loaded))


@app.command()
def env() -> None:
    """Print every key as an environment variable, with meaning and default."""
    typer.echo(env_example(), nl=False)


# `trivet scrub`: a filter for files of any size.


_PIECE_BYTES: Final = 256 * 1024
"""Read at once: enough for the costs of a piece not to count, far below what its time budget allows."""


class ScrubFailed(TrivetError):
    """The scrubber gave up, so the rest of the input is withheld."""


def scrub(
    report: Annotated[bool, typer.Option("--report", help="Print how many secrets of each kind were found.")] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", help="Try a file for scrub.rules_file: its rules, and what is found in standard input."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Copy standard input to standard output without the secrets in it, however long it is."""
    from gateway.scrub import StreamScrubber  # noqa: PLC0415 - start-up: compiles every rule

    # End without an error when the reader ends, as in `trivet scrub < log | head`.
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if check is not None:
        _check_rules(check)
        return
    loaded = loaded_and_warned(config)
    scrubber = StreamScrubber(scrubber_of_command(loaded))
    out = sys.stdout.buffer
    for piece in _decoded(sys.stdin.buffer):
        clean = scrubber.feed(piece)
        if clean and not report:
            out.write(clean.encode())
            out.flush()
        if scrubber.has_failed:
            raise ScrubFailed("the scrubber gave up, so what follows is withheld")
    rest = scrubber.flush()
    if not report:
        out.write(rest.encode())
        return
    counts = scrubber.removed.most_common()
    for kind, count in counts:
        typer.echo(f"{count:>6}  {kind}")
    typer.echo(f"{sum(count for _, count in counts):>6}  in all")


def _check_rules(path: Path) -> None:
    """Print what becomes of each rule, and which rule finds something where in a text that is piped in: line and
    column, never the secret. Raises `ScrubFailed` if nothing could start with this file."""
    found = read_rules(path)
    for rule in found.taken:
        say(f"taken    {rule.line:>5}  {rule.id}")
    for row in found.refused:
        say(f"{'wrong' if row.is_mistake else 'refused':<7}  {row.line:>5}  {row.id}: {row.reason}")
    say(f"{len(found.taken)} taken, {len(found.refused)} not")
    if not sys.stdin.isatty():
        text = "".join(_decoded(sys.stdin.buffer))
        for each in Scrubber(own=OwnRules(found.taken)).findings(text):
            line_at = text.rfind("\n", 0, each.start) + 1
            say(f"found    {text[: each.start].count(chr(10)) + 1}:{each.start - line_at + 1}  {each.rule}")
    if not found.taken or any(row.is_mistake for row in found.refused):
        raise ScrubFailed(f"{path} is not fit for scrub.rules_file: correct what is wrong in it")


def _decoded(source: BinaryIO) -> Iterator[str]:
    """Decode a stream of bytes as it arrives; a byte that is no UTF-8 becomes a mark."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := source.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)
