"""The `trivet` command line."""

from __future__ import annotations

import asyncio
from importlib.metadata import version as installed_version
from typing import Annotated, NoReturn

import structlog
import typer

from gateway.config import Loaded, admin_token, masked_url, own_hosts, table_of
from gateway.contracts.errors import ConfigError
from gateway.ops.cli import access, clients, maintenance, sessions
from gateway.ops.cli.common import ConfigOption, become_role, loaded_and_warned
from gateway.ops.supervisor.plan import UpOptions
from gateway.preflight import check_port_free, check_redis_answers
from gateway.process import run_to_exit
from gateway.scrub.vault import scrubber_of
from gateway.telemetry.logs import configure_logs
from gateway.telemetry.spans import check_exporter

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


def checked_options(loaded: Loaded) -> UpOptions:
    """Check everything that an operator has to hear of before a process starts, and return what the supervisor needs.

    Raises `ConfigError`, or `BusUnavailable` when no server of `redis.url` takes a connection.
    """
    settings = loaded.settings
    configure_logs(scrubber_of(loaded), level=settings.log.level.value, as_json=settings.log.as_json)
    if not settings.channels.enabled_names:
        raise ConfigError(
            "no channel is configured: set channels.telegram.token, channels.discord.token or channels.slack.bot_token "
            "and .app_token in trivet.toml, or look at `trivet demo`, which needs none"
        )
    for name in settings.channels.enabled_names:
        if missing := settings.channels.each()[name].missing:
            keys = " and ".join(f"{table_of(name)}.{key}" for key in missing)
            raise ConfigError(f"{table_of(name)} is enabled, but {keys} is empty: set it or disable the channel")
    check_exporter(settings.telemetry)
    check_port_free(settings.http.host, settings.http.port, "http.port")
    admin_token(settings)
    for key in settings.access.open_keys:
        log.warning("%s is open: everybody who finds the bot may talk to the agent", key)
    if settings.redis.url:
        asyncio.run(check_redis_answers(settings.redis.url, masked_url(settings.redis.url)))
    return UpOptions.of_settings(settings, own_hosts(settings))


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


log = structlog.get_logger("trivet.up")

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
app.add_typer(clients.app, name="clients")
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
