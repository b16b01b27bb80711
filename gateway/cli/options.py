"""Options that several commands share, and what every command does first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from gateway.config import Loaded, load

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file; else $TRIVET_CONFIG, else ./trivet.toml if it exists."),
]


def loaded_and_warned(config: Path | None) -> Loaded:
    """The settings; what looks wrong in them is told on stderr."""
    loaded = load(config)
    for warning in loaded.warnings:
        typer.echo(f"trivet: warning: {warning}", err=True)
    return loaded
