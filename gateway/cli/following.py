"""`trivet trace` and `trivet dead`: what became of a message."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from gateway.cli.doors import checked_store, operator_bus
from gateway.cli.options import ConfigOption, loaded_and_warned, say
from gateway.config import Settings
from gateway.contracts.errors import TrivetError
from gateway.contracts.ports import DeadLetter

DEAD_SHOWN: Final = 50
_TEXT_SHOWN: Final = 80

dead = typer.Typer(help="Messages that could not be answered and were put aside.", invoke_without_command=True)

EntryArgument = Annotated[str, typer.Argument(help="The id that `trivet dead list` shows.")]


class NothingKnown(TrivetError):
    """Neither the database nor the bus knows the id."""


def trace(
    id: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="The reference that a chat shows, the id of a dead letter, or any id in the logs: of a message, "
            "a turn, a reply, a session or a lane.",
        ),
    ],
    config: ConfigOption = None,
) -> None:
    """Show what became of a message, hop by hop, with times."""
    asyncio.run(_trace(loaded_and_warned(config).settings, id))


@dead.callback()
def dead_or_list(context: typer.Context, config: ConfigOption = None) -> None:
    """List them."""
    if context.invoked_subcommand is None:
        list_dead(config)


@dead.command("list")
def list_dead(config: ConfigOption = None) -> None:
    """Show the newest, newest first."""
    asyncio.run(_list(loaded_and_warned(config).settings))


@dead.command("retry")
def retry_dead(entry: EntryArgument, config: ConfigOption = None) -> None:
    """Put a message back on its lane, behind what waits there."""
    asyncio.run(_settle(loaded_and_warned(config).settings, entry, is_retried=True))
    say(f"{entry} waits for an answer again.")


@dead.command("drop")
def drop_dead(entry: EntryArgument, config: ConfigOption = None) -> None:
    """Forget one of them."""
    asyncio.run(_settle(loaded_and_warned(config).settings, entry, is_retried=False))
    say(f"{entry} is forgotten.")


async def _trace(settings: Settings, id_: str) -> None:
    from gateway.admin.trace import hops_of, nothing_known  # noqa: PLC0415 - start-up

    async with operator_bus(settings) as bus, checked_store(settings) as store:
        hops = await hops_of(id_, store, bus)
    if not hops:
        raise NothingKnown(nothing_known(id_))
    for hop in hops:
        say(f"{_moment(hop.at_ms):<24}  {hop.name:<16}  {hop.detail}".rstrip())


async def _list(settings: Settings) -> None:
    async with operator_bus(settings) as bus:
        letters = await bus.dead_letters(DEAD_SHOWN)
    for letter in letters:
        say(_line(letter))
    if not letters:
        say("There are no dead letters.")


async def _settle(settings: Settings, entry: str, *, is_retried: bool) -> None:
    async with operator_bus(settings) as bus:
        is_found = await (bus.retry_dead(entry) if is_retried else bus.drop_dead(entry))
    if not is_found:
        raise NothingKnown(f"there is no such dead letter as {entry}; `trivet dead list` shows them")


def _line(letter: DeadLetter) -> str:
    what = f"{letter.message.key}  {letter.message.text[:_TEXT_SHOWN]!r}" if letter.message else "(unreadable)"
    return f"{letter.entry_id:<20}  {_moment(letter.died_at_ms)}  {letter.reason}, {letter.attempts} runs  {what}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")[:23] + "Z" if at_ms else "-"
