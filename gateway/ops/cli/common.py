"""Shared parts of the commands: options, the first steps of every command, and the way to the database and the bus."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Annotated, NoReturn, TypeAlias, TypeVar

import typer

from gateway import process
from gateway.access import AccessService
from gateway.bus import load_redis
from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, database_url, load_settings, process_environment
from gateway.config.loader import CONFIG_VARIABLE
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.contracts.messages import each_text
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import own_rules

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway.bus.bus import RedisBus
    from gateway.bus.operator import Operator
    from gateway.store import Store


T = TypeVar("T")

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file; else $TRIVET_CONFIG, else ./trivet.toml if it exists."),
]


def loaded_and_warned(config: Path | None, given: Mapping[str, str] = MappingProxyType({})) -> Loaded:
    """Load the settings, with the variables `given` on top of the environment, and warn on stderr about what looks
    wrong in them. From now on this process knows our own secrets."""
    loaded = load_settings(config, {**process_environment(), **given})
    process.use_scrubber(scrubber_of_command(loaded))
    for warning in loaded.warnings:
        say(f"trivet: warning: {warning}", err=True)
    return loaded


def scrubber_of_command(loaded: Loaded) -> Scrubber:
    """Build the scrubber of a command, which needs no data folder. Raises `ConfigError` as `own_rules` does."""
    return Scrubber(loaded.secrets, own=own_rules(loaded.settings.scrub))


def say(text: str, *, err: bool = False) -> None:
    """Say one line or more on the operator's terminal, scrubbed, since a terminal is no better place for a secret than
    a log."""
    typer.echo(process.scrubbed(text), err=err)


def say_document(document: object) -> None:
    """Print one JSON document. Each text in it is scrubbed by itself, so that the name of its field makes no secret of
    one of our ids."""
    typer.echo(json.dumps(each_text(document, process.scrubbed), ensure_ascii=False, indent=2))


def typed_answer(asks: str, *, default: str = "", is_secret: bool = False) -> str:
    """Ask on this process's own terminal and return the answer, without spaces around it. Piped input cannot be hidden
    and needs not be."""
    typed: str = typer.prompt(
        asks, default=default, show_default=bool(default), hide_input=is_secret and sys.stdin.isatty()
    )
    return typed.strip()


def become_role(
    loaded: Loaded, module: str, *arguments: str, given: Mapping[str, str] = MappingProxyType({})
) -> NoReturn:
    """Call `become` with the configuration file that was found, and the variables `given`."""
    become(module, *arguments, given=told_of(loaded, given))


def told_of(loaded: Loaded, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables `given`, and the one that names the configuration file that was found."""
    return {**({CONFIG_VARIABLE: str(loaded.path.absolute())} if loaded.path else {}), **given}


def become(module: str, *arguments: str, given: Mapping[str, str] = MappingProxyType({})) -> NoReturn:
    """Replace this process by a module of ours, so that signals and the exit code are that module's own."""
    environment = {**process_environment(), **given}
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-m", module, *arguments), environment)  # noqa: S606 - ourselves


@contextmanager
def private_file(path: Path, option: str) -> Iterator[IO[bytes]]:
    """Create a new file that nobody else can read, from the start; `option` names it. A file that could not be finished
    is removed. Raises `ConfigError`."""
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): name a new file with {option}") from error
    try:
        with file:
            yield file
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            why = f"{path} could not be finished ({error.strerror})"
            raise ConfigError(f"{why}: name another place with {option}") from error
        raise


# The way of a command to the state of a running Trivet: the database itself, and the bus.


@contextlib.asynccontextmanager
async def operator_bus(settings: Settings) -> AsyncIterator[Operator]:
    """Open the bus, as operators use it."""
    load_redis()
    from gateway.bus.bus import open_bus  # noqa: PLC0415 - start-up
    from gateway.bus.embedded import embedded_url  # noqa: PLC0415 - start-up

    async with await open_bus(settings.redis.url or embedded_url(settings.data_dir)) as bus:
        yield bus.operator


@contextlib.asynccontextmanager
async def checked_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the database. Raises `SchemaMismatch` for one that is not ours."""
    from gateway.store import open_store  # noqa: PLC0415 - start-up

    async with open_store(database_url(settings), SystemClock()) as store:
        await store.check_schema()
        yield store


def decide(loaded: Loaded, act: Callable[[AccessService], Awaitable[T]]) -> T:
    """Return what `act` makes of the service that decides about people and places."""

    async def acting() -> T:
        async with running_installation(loaded) as (_, _, keeper):
            return await act(keeper)

    return asyncio.run(acting())


@contextlib.asynccontextmanager
async def running_installation(loaded: Loaded) -> AsyncIterator[tuple[Store, RedisBus, AccessService]]:
    """Open database and bus, and the service that decides about people and places. Raises `BusUnavailable` while
    nothing runs."""
    from gateway.bus.bus import open_bus  # noqa: PLC0415 - start-up
    from gateway.bus.embedded import embedded_url  # noqa: PLC0415 - start-up

    settings, clock = loaded.settings, SystemClock()
    clean = scrubber_of_command(loaded).scrub
    async with checked_store(settings) as store:
        try:
            installation = await store.installation()
            bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=installation)
        except BusUnavailable as error:
            raise BusUnavailable(f"{error}; the bus is told of it, too, so `trivet up` has to run") from error
        async with bus:
            keeper = AccessService(store.access, bus.access, bus.deliveries, settings.access.policy, clean, clock)
            yield store, bus, keeper


# What commands print: rows for programs, colours for people.


JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="As one JSON document: the rows that the API gives, where it has them.")
]


def lists(app: typer.Typer) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command `list` of `app`, and what it does where no command is named."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        @app.callback(invoke_without_command=True)
        def list_without_a_word(
            context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False
        ) -> None:
            if context.invoked_subcommand is None:
                command(config=config, as_json=as_json)

        return app.command("list")(command)

    return made


def say_rows(rows: Iterable[BaseModel]) -> None:
    """Print a list as the API gives it."""
    say_document([row.model_dump(mode="json") for row in rows])


def coloured(text: str, colour: str) -> str:
    """Colour a text for a terminal; elsewhere, and where NO_COLOR is set, it stays as it is."""
    is_plain = not sys.stdout.isatty() or bool(process_environment().get("NO_COLOR"))
    return text if is_plain else typer.style(text, fg=colour)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on a terminal, as long as the block lasts, that something goes on."""
    from rich.console import Console  # noqa: PLC0415 - start-up

    with Console(stderr=True).status(text):
        yield
