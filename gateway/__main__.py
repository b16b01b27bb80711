"""The `trivet` command line."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated, NoReturn

import typer

from gateway.contracts.errors import ConfigError
from gateway.ops.cli import access, maintenance, sessions
from gateway.ops.cli.common import ConfigOption, become_role, loaded_and_warned
from gateway.ops.supervisor.options import checked_options
from gateway.process import run_to_exit

# `trivet up|channels|agent|admin|chat`: each becomes the process of that role, in the place of this one.


def up(
    config: ConfigOption = None,
    single: Annotated[
        bool,
        typer.Option("--single", help="All roles in one process: half the memory, for one person's own machine."),
    ] = False,
) -> None:
    """Start everything on this machine and keep it running."""
    loaded = loaded_and_warned(config)
    options = checked_options(loaded)
    if single:
        become_role(loaded, "gateway.ops.supervisor.single")
    become_role(loaded, "gateway.ops.supervisor", options.as_text())


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
    become_role(loaded_and_warned(config), "gateway.ops.admin")


def chat(config: ConfigOption = None) -> None:
    """Talk to the agent in this terminal; where no Trivet is running, an agent is started for the talk."""
    become_role(loaded_and_warned(config), "gateway.ops.supervisor.chat")


app = typer.Typer(
    name="trivet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Trivet: one agent in Telegram, Discord and Slack.",
)
for command in (
    maintenance.init,
    up,
    channels,
    agent,
    admin,
    chat,
    sessions.trace,
    maintenance.demo,
    maintenance.doctor,
    maintenance.migrate,
    maintenance.installation,
    access.pair,
    maintenance.export,
    maintenance.backup,
    maintenance.scrub,
):
    app.command()(command)
app.add_typer(access.app, name="access")
app.add_typer(maintenance.app, name="config")
app.add_typer(sessions.dead, name="dead")
app.add_typer(sessions.sessions, name="sessions")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"trivet {installed_version('trivet')}")
        raise typer.Exit


@app.callback()
def trivet(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Trivet: one agent in Telegram, Discord and Slack."""


def main() -> NoReturn:
    """Run the command line; every error of ours ends in one sentence and an exit code."""
    run_to_exit(app)


if __name__ == "__main__":
    main()
