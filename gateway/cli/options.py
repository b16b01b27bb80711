"""Options that several commands share, and what every command does first."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NoReturn, TypeAlias

import typer

from gateway.config import Loaded, load, process_environment
from gateway.config.loading import CONFIG_VARIABLE
from gateway.scrub import Scrubber
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


def become_role(loaded: Loaded, module: str, *arguments: str) -> NoReturn:
    """`become`, with the configuration file that was found."""
    become(module, *arguments, given={CONFIG_VARIABLE: str(loaded.path.absolute())} if loaded.path else {})


def become(module: str, *arguments: str, given: Mapping[str, str] = MappingProxyType({})) -> NoReturn:
    """Replace this process by a module of ours, so that signals and the exit code are that module's own."""
    environment = {**process_environment(), **given}
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-m", module, *arguments), environment)  # noqa: S606 - ourselves
