"""Options that several commands share, and what every command does first."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Annotated, NoReturn, TypeAlias

import typer

from gateway.config import Loaded, load, process_environment
from gateway.config.loading import CONFIG_VARIABLE
from gateway.contracts.errors import ConfigError
from gateway.scrub import Scrubber
from gateway.scrub.structured import each_text
from gateway.telemetry import crashes

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file; else $TRIVET_CONFIG, else ./trivet.toml if it exists."),
]


def loaded_and_warned(config: Path | None) -> Loaded:
    """The settings; what looks wrong in them is told on stderr. From now on this process knows our own secrets."""
    loaded = load(config)
    crashes.speak_with(Scrubber(loaded.secrets))
    for warning in loaded.warnings:
        say(f"trivet: warning: {warning}", err=True)
    return loaded


def say(text: str, *, err: bool = False) -> None:
    """One line or more for the operator's terminal, which is no better place for a secret than a log."""
    typer.echo(crashes.spoken(text), err=err)


def say_document(document: object) -> None:
    """Print one JSON document. Each text in it is scrubbed by itself, so that the name of its field makes no secret of
    one of our ids."""
    typer.echo(json.dumps(each_text(document, crashes.spoken), ensure_ascii=False, indent=2))


def become_role(loaded: Loaded, module: str, *arguments: str) -> NoReturn:
    """`become`, with the configuration file that was found."""
    become(module, *arguments, given={CONFIG_VARIABLE: str(loaded.path.absolute())} if loaded.path else {})


def become(module: str, *arguments: str, given: Mapping[str, str] = MappingProxyType({})) -> NoReturn:
    """Replace this process by a module of ours, so that signals and the exit code are that module's own."""
    environment = {**process_environment(), **given}
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-m", module, *arguments), environment)  # noqa: S606 - ourselves


@contextmanager
def private_file(path: Path, option: str) -> Iterator[IO[bytes]]:
    """A new file that nobody else can read, from the start; `option` names it. Of one that could not be finished
    nothing is left. Raises `ConfigError`."""
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
