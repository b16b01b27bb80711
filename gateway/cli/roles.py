"""`trivet up|channels|agent|admin|chat`: each becomes the process of that role, in the place of this one."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.options import ConfigOption, become_role, loaded_and_warned
from gateway.contracts.errors import ConfigError


def up(config: ConfigOption = None) -> None:
    """Start everything on this machine and keep it running."""
    become_role(loaded_and_warned(config), "gateway.supervisor")


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
    become_role(loaded, "channels", *(names or ()))


def agent(config: ConfigOption = None) -> None:
    """Answer messages."""
    become_role(loaded_and_warned(config), "agent")


def admin(config: ConfigOption = None) -> None:
    """Serve the operator's API and metrics."""
    become_role(loaded_and_warned(config), "gateway.admin")


def chat(config: ConfigOption = None) -> None:
    """Talk to the agent in this terminal; where no Trivet is running, an agent is started for the talk."""
    become_role(loaded_and_warned(config), "gateway.supervisor.chat")
