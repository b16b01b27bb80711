"""`trivet init|up|channels|agent|admin|chat`: all but `init` become the process of a role, in the place of this one.

`trivet up --telegram TOKEN` needs no file: the tokens go into the environment of the supervisor, which shows them on
no command line, and each role is given its own. At the end is the whole command line."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from gateway.clock import SystemClock
from gateway.config import (
    SCRIPTED_MODEL,
    Loaded,
    Settings,
    admin_token,
    masked_url,
    own_hosts,
    process_environment,
    table_of,
)
from gateway.config.catalog import catalog
from gateway.config.derived import check_installed, provider_of
from gateway.config.loader import CONFIG_VARIABLE, DEFAULT_FILE
from gateway.contracts.access import OwnerCode
from gateway.contracts.errors import ConfigError, TrivetError
from gateway.contracts.sessions import GrantRole
from gateway.limits import OWNER_CODE_CHARS, OWNER_CODE_TTL_S
from gateway.ops.cli import access, common, maintenance, sessions
from gateway.ops.cli.common import say
from gateway.ops.doctor import CheckResult, CheckState, as_table
from gateway.ops.init.questions import configuration_text, slack_manifest_link
from gateway.ops.supervisor.__main__ import FORKED, hand_over
from gateway.ops.supervisor.plan import UpOptions
from gateway.preflight import at, check_port_free, check_redis_answers
from gateway.scrub.own_rules import read_rules
from gateway.scrub.vault import scrubber_of
from gateway.telemetry.logs import configure_logs
from gateway.telemetry.spans import check_exporter

TYPED: Final = "-"
"""In the place of a token: it is asked for, or read from standard input."""

_TOKENS: Final = (
    "; - asks for it, or reads a line of standard input, so that no list of processes and no history has it"
)
_OWNER_CODE_KEY: Final = "access.owner_code"
_CODE_GROUP: Final = 4

log = logging.getLogger("trivet.up")


# `trivet init`: the first command on a new machine.


def init(
    config: common.ConfigOption = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Only write the file; do not ask to start.")] = False,
) -> None:
    """Ask for tokens and a model, try each of them, write the configuration file, and start."""
    from gateway.ops.init.interview import AnswerChecks, Interview  # noqa: PLC0415 - start-up: only this needs the doctor's clients

    environ = process_environment()
    path = (config or Path(environ.get(CONFIG_VARIABLE) or DEFAULT_FILE)).expanduser()
    if path.exists():
        raise ConfigError(f"{path} is there already: `trivet doctor` looks at it, --config names another")
    with TemporaryDirectory() as folder:
        blank = Path(folder, DEFAULT_FILE)
        blank.touch()
        interview = Interview(_Typed(), AnswerChecks(blank, environ))
        answers = interview.held(str(path))
    with common.private_file(path, "--config") as file:
        file.write(configuration_text(answers).encode())
    interview.show_what_next(str(path))
    if interview.has_bot and not no_start and _is_wanted("Start it now?"):
        up(config=path)


def _is_wanted(asks: str) -> bool:
    """Ask for a yes; where nobody is left to say it, it was not said."""
    try:
        return typer.confirm(asks, default=True)
    except typer.Abort:
        return False


class _Typed:
    """`interview.Terminal` on this process's own terminal."""

    show = staticmethod(common.say)
    ask = staticmethod(common.typed_answer)


# `trivet up`, `trivet channels|agent|admin|chat`.


def up(
    config: common.ConfigOption = None,
    telegram: Annotated[
        str | None, typer.Option(metavar="TOKEN", help=f"Start with this bot of Telegram{_TOKENS}.")
    ] = None,
    discord: Annotated[str | None, typer.Option(metavar="TOKEN", help="A bot of Discord, likewise.")] = None,
    slack_bot: Annotated[str | None, typer.Option(metavar="TOKEN", help="An app of Slack: xoxb-…, likewise.")] = None,
    slack_app: Annotated[str | None, typer.Option(metavar="TOKEN", help="The same app: xapp-…, likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Any litellm model; its key comes from the environment, as OPENAI_API_KEY does.")
    ] = None,
    single: Annotated[
        bool, typer.Option("--single", help="All roles in one process: half the memory, for one person's own machine.")
    ] = False,
    forked: Annotated[bool, typer.Option(FORKED, hidden=True)] = False,
) -> None:
    """Start everything on this machine and keep it running. `trivet up --telegram TOKEN` needs no configuration file
    and writes none: what it keeps is in data_dir, as ever. It tells the address of each bot, and a code that makes
    the first who sends it to the bot its admin."""
    named = {
        "channels.telegram.token": telegram,
        "channels.discord.token": discord,
        "channels.slack.bot_token": slack_bot,
        "channels.slack.app_token": slack_app,
    }
    tokens = {key: _typed(key) if text == TYPED else text for key, text in named.items() if text is not None}
    given = {
        catalog()[key].variable: text for key, text in (tokens | ({"agent.model": model} if model else {})).items()
    }
    loaded = common.loaded_and_warned(config, given)
    if (slack_bot or slack_app) and loaded.settings.channels.slack.missing:
        raise ConfigError(
            "an app of Slack needs two tokens, --slack-bot xoxb-… and --slack-app xapp-…; this link makes an app: "
            + slack_manifest_link()
        )
    options = checked_options(loaded)
    if tokens or sys.stdout.isatty():
        given |= introduced(loaded)
    if single:
        common.become_role(loaded, "gateway.ops.supervisor.single", given=given)
    if forked:
        hand_over(options, common.told_of(loaded, given))
    common.become_role(loaded, "gateway.ops.supervisor", options.as_text(), given=given)


def _typed(key: str) -> str:
    text = common.typed_answer(key, is_secret=True)
    if not text:
        raise ConfigError(f"no {key} was typed")
    return text


def checked_options(loaded: Loaded) -> UpOptions:
    """Check everything that an operator has to hear of before a process starts, and return what the supervisor needs.

    Raises `ConfigError`, or `BusUnavailable` when no server of `redis.url` takes a connection."""
    settings = loaded.settings
    configure_logs(scrubber_of(loaded), level=settings.log.level.value, as_json=settings.log.as_json)
    if not settings.channels.enabled_names:
        raise ConfigError(
            "no channel is configured: `trivet up --telegram TOKEN` starts a bot at once, `trivet init` asks for all "
            "that there is, `trivet demo` needs nothing; or set channels.telegram.token, channels.discord.token, or "
            "channels.slack.bot_token and .app_token in trivet.toml"
        )
    for name in settings.channels.enabled_names:
        if missing := settings.channels.each()[name].missing:
            keys = " and ".join(f"{table_of(name)}.{key}" for key in missing)
            raise ConfigError(f"{table_of(name)} is enabled, but {keys} is empty: set it or disable the channel")
        check_installed(name.partition(".")[0], table_of(name))
    check_exporter(settings.telemetry)
    check_port_free(settings.http.host, settings.http.port, "http.port")
    admin_token(settings)
    path = settings.scrub.rules_file
    for row in read_rules(path).refused if path is not None else ():
        log.warning("%s: %srule %s is not in force: %s", path, row.place, row.id, row.reason)
    for key in settings.access.open_keys:
        log.warning("%s is open: everybody who finds the bot may talk to the agent", key)
    if settings.redis.url:
        asyncio.run(check_redis_answers(settings.redis.url, masked_url(settings.redis.url)))
    return UpOptions.of_settings(settings, own_hosts(settings))


def introduced(loaded: Loaded) -> Mapping[str, str]:
    """Tell an operator where the bots are, who answers, and how to become admin. Returns what the roles have to know
    of the code. Raises `ConfigError` when a platform refuses its token."""
    from gateway.ops.doctor.platforms import check_platforms  # noqa: PLC0415 - start-up: only this needs HTTP

    settings = loaded.settings
    found = asyncio.run(check_platforms(settings))
    known = {each.name for each in found if each.state is CheckState.OK}
    refused = [each for each in found if each.name not in known and not each.is_unreachable]
    if refused:
        raise ConfigError("\n".join(f"{each.name}: {each.seen}; {each.remedy}" for each in refused))
    bots = [each for each in found if each.link]
    say("\n".join(_bot_lines(bots)))
    if rest := [each for each in found if each.state is not CheckState.OK]:
        say(as_table(rest))
    say(f"model      {_model_line(settings)}")
    token = "http.admin_token" if settings.http.admin_token else f"in {settings.data_dir}/admin-token"
    say(f"dashboard  http://{at(settings.http.host, settings.http.port)} (the token to sign in with is {token})")
    say(f"data       {settings.data_dir}")
    if asyncio.run(_has_admin(settings)):
        return {}
    code = SystemClock().code(OWNER_CODE_CHARS)
    shown = "-".join(code[start : start + _CODE_GROUP] for start in range(0, len(code), _CODE_GROUP))
    # Past the scrubber: it is made to be read here, and who reads it is who may use it.
    typer.echo(f"\nYou are the admin when you send this to the bot in a direct message within an hour: {shown}")
    for bot in bots:
        if bot.name.partition(".")[0] == "telegram":
            typer.echo(f"In Telegram this link does it: {bot.link}?start={shown}")
    typer.echo()
    ends_at_ms = SystemClock().now_ms() + OWNER_CODE_TTL_S * 1000
    return {catalog()[_OWNER_CODE_KEY].variable: str(OwnerCode.of(code, ends_at_ms))}


def _bot_lines(bots: Sequence[CheckResult]) -> list[str]:
    return [f"{bot.name:<9}  {bot.seen}: {bot.link}" for bot in bots]


def _model_line(settings: Settings) -> str:
    model = settings.agent.model
    if model == SCRIPTED_MODEL:
        return (
            f"{model}, which is offline and thinks nothing: --model anthropic/claude-sonnet-4-6 with ANTHROPIC_API_KEY "
            "in the environment, or any other of litellm's, has the bot answer for real"
        )
    provider = provider_of(model)
    lacks_key = provider is not None and not process_environment().get(provider.variable)
    if provider is not None and lacks_key and settings.agent.api_key is None and not settings.agent.api_base:
        return f"{model}, for which {provider.variable} is not set"
    return model


async def _has_admin(settings: Settings) -> bool:
    """Tell whether anybody is admin already; nobody is where there is no database yet."""
    if settings.access.admins:
        return True
    try:
        async with common.checked_store(settings) as store:
            return any(grant.role is GrantRole.ADMIN for grant in await store.access.grants())
    except TrivetError:  # the agent looks again when the code is used
        return False


def channels(
    names: Annotated[list[str] | None, typer.Argument(help="Only these channels; all enabled ones by default.")] = None,
    config: common.ConfigOption = None,
) -> None:
    """Hold the connections to the platforms."""
    loaded = common.loaded_and_warned(config)
    known = loaded.settings.channels.each()
    for name in names or ():
        if name not in known:
            raise ConfigError(f"there is no channel {name!r}: choose from {', '.join(known)}")
    common.become_role(loaded, "channels", *(names or ()))


def agent(config: common.ConfigOption = None) -> None:
    """Answer messages."""
    common.become_role(common.loaded_and_warned(config), "agent")


def admin(config: common.ConfigOption = None) -> None:
    """Serve the operator's API and metrics."""
    common.become_role(common.loaded_and_warned(config), "gateway.ops.admin")


def chat(config: common.ConfigOption = None) -> None:
    """Talk to the agent in this terminal; where no Trivet is running, an agent is started for the talk."""
    common.become_role(common.loaded_and_warned(config), "gateway.ops.supervisor.chat")


# The command line: every command that there is, in the order of use.

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
    init,
    up,
    channels,
    agent,
    admin,
    chat,
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
