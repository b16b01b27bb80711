"""`trivet up|channels|agent|admin|chat`: each becomes the process of that role, in the place of this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.cli.options import ConfigOption, loaded_and_warned
from gateway.config import Loaded, process_environment
from gateway.config.loading import CONFIG_VARIABLE
from gateway.contracts.errors import ConfigError


def up(config: ConfigOption = None) -> None:
    """Start everything on this machine and keep it running."""
    _become(loaded_and_warned(config), "gateway.supervisor")


def channels(
    names: Annotated[list[str] | None, typer.Argument(help="Only these channels; all enabled ones by default.")] = None,
    config: ConfigOption = None,
) -> None:
    """Hold the connections to the platforms."""
    loaded = loaded_and_warned(config)
    known = loaded.settings.channels.each()
    for name in names or ():
        if name not in known:
            raise ConfigError(f"there is no channel {name!r}: choose from {', '.join(known)}")
    _become(loaded, "channels", *(names or ()))


def agent(config: ConfigOption = None) -> None:
    """Answer messages."""
    _become(loaded_and_warned(config), "agent")


def admin(config: ConfigOption = None) -> None:
    """Serve the operator's API and metrics."""
    _become(loaded_and_warned(config), "gateway.admin")


def chat(config: ConfigOption = None) -> None:
    """Talk to the agent in this terminal."""
    _become(loaded_and_warned(config), "channels.terminal")


def _become(loaded: Loaded, module: str, *arguments: str) -> NoReturn:
    """Replace this process, so that signals and the exit code are the role's own."""
    environment = process_environment()
    if loaded.path:
        environment[CONFIG_VARIABLE] = str(Path(loaded.path).absolute())
    sys.stdout.flush()
    os.execve(sys.executable, (sys.executable, "-m", module, *arguments), environment)  # noqa: S606 - ourselves
