"""The `trivet` command line."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from gateway.ops.cli import access, maintenance, sessions, start
from gateway.process import run_to_exit

ORDER: Final = (
    *("init", "up", "status", "chat", "pair", "access", "clients", "doctor", "logs", "sessions", "trace", "dead"),
    *("plugins", "export", "erase", "backup", "restore", "config", "mcp", "demo", "scrub"),
    *("channels", "agent", "admin", "migrate", "installation"),
)
"""In which the commands are listed: from the first day to several machines."""


class InOrderOfUse(TyperGroup):
    """The commands of `trivet`, as help lists them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in ORDER if name in self.commands]


app = typer.Typer(
    name="trivet",
    cls=InOrderOfUse,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Trivet: one agent in Telegram, Discord and Slack.",
)
for command in (
    start.init,
    start.up,
    start.channels,
    start.agent,
    start.admin,
    start.chat,
    sessions.trace,
    access.pair,
    maintenance.status,
    maintenance.logs,
    maintenance.demo,
    maintenance.doctor,
    maintenance.plugins,
    maintenance.migrate,
    maintenance.installation,
    maintenance.export,
    maintenance.erase,
    maintenance.backup,
    maintenance.restore,
    maintenance.scrub,
):
    app.command()(command)
app.add_typer(access.app, name="access")
app.add_typer(access.clients, name="clients")
app.add_typer(maintenance.app, name="config")
app.add_typer(maintenance.mcp, name="mcp")
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
