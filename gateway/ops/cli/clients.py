"""`trivet clients`: programs that may talk to the agent over HTTP."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from gateway.clients import CHANNEL, new_client, token_of
from gateway.config import client_key
from gateway.contracts.access import GIVEN
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.ops.cli.common import ConfigOption, JsonOption, decide, loaded_and_warned, say, say_rows

_ACTOR: Final = "cli"

app = typer.Typer(help="Programs that may talk to the agent over HTTP.", invoke_without_command=True)

ClientArgument = Annotated[str, typer.Argument(help="A client as `trivet clients` lists it, such as shop-4f2a9c.")]


@app.callback()
def clients_or_list(context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the clients."""
    if context.invoked_subcommand is None:
        list_clients(config, as_json)


@app.command("list")
def list_clients(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the clients and what each may do."""
    from gateway.ops.admin.access import GrantView  # noqa: PLC0415 - start-up

    grants = decide(loaded_and_warned(config), lambda keeper: keeper.book.grants())
    clients = [grant for grant in grants if grant.key.channel == CHANNEL]
    if as_json:
        say_rows(map(GrantView.model_validate, clients))
        return
    for grant in clients:
        say(f"{grant.key.user:<40}  {grant.role.value}")
    if not clients:
        say("There is no client yet: `trivet clients add NAME` makes one.")


@app.command("add")
def add_client(
    name: Annotated[str, typer.Argument(help="Lower case letters, digits and underscores, such as shop.")],
    role: Annotated[str, typer.Option(metavar="|".join(GIVEN), help="What it may do.")] = GrantRole.MEMBER.value,
    config: ConfigOption = None,
) -> None:
    """Let a program in and print its token, which is shown this once."""
    if role not in GIVEN:
        raise ConfigError(f"{role[:40]!r} is no role to give; there are {', '.join(GIVEN)}")
    loaded = loaded_and_warned(config)
    client, granted = new_client(name), GrantRole(role)
    decide(loaded, lambda keeper: keeper.grant(client, granted, actor=_ACTOR))
    say(f"{client} is {granted.value} now. Its token, which is not shown again:")
    typer.echo(token_of(client_key(loaded.settings), client))
    if not loaded.settings.channels.api.is_enabled:
        say("Nobody listens to it yet: set channels.api.enabled = true.", err=True)


@app.command("remove")
def remove_client(client: ClientArgument, config: ConfigOption = None) -> None:
    """Listen to a client no more, from its next request on. Its token is worth nothing for good."""
    key = SessionKey.parse(client if ":" in client else f"{CHANNEL}:{client}")
    if not decide(loaded_and_warned(config), lambda keeper: keeper.revoke(key, actor=_ACTOR)):
        raise ConfigError(f"there is no client {client[:80]!r}: `trivet clients` lists them")
    say(f"{key} may not talk to the agent any more.")
