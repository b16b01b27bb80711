"""`trivet sessions`, `trivet trace` and `trivet dead`: conversations, and what became of a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.contracts.errors import ConfigError, TrivetError
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import SubTask
from gateway.i18n import ENGLISH
from gateway.i18n.reasons import in_words
from gateway.ops.admin.views import HopView, dead_letter_view, nested, session_view
from gateway.ops.cli.common import (
    ConfigOption,
    JsonOption,
    checked_store,
    lists,
    loaded_and_warned,
    operator_bus,
    say,
    say_rows,
)

if TYPE_CHECKING:
    from gateway.store import Store


LISTED: Final = 50
TREES_SHOWN: Final = 10
_TITLE_SHOWN: Final = 60

sessions = typer.Typer(help="Conversations, and the sub-agents that work for them.")

KeyOption = Annotated[str | None, typer.Option("--key", help="Those of one session key, such as telegram:123456789.")]


class NoSuchSession(TrivetError):
    """The database has no session of that id."""


@lists(sessions)
def list_sessions(key: KeyOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the newest conversations, newest first."""
    asyncio.run(print_list(loaded_and_warned(config).settings, _parsed(key), as_json=as_json))


@sessions.command("tree")
def show_tree(
    session_id: Annotated[
        str | None, typer.Argument(help="A session. Without it: the newest that have sub-agents.")
    ] = None,
    key: KeyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which sub-agents worked for a conversation, and the state of each."""
    if session_id is not None and key is not None:
        raise ConfigError("name a session or a key, not both")
    asyncio.run(print_trees(loaded_and_warned(config).settings, session_id, _parsed(key), as_json=as_json))


async def print_list(settings: Settings, key: SessionKey | None, *, as_json: bool) -> None:
    async with checked_store(settings) as store:
        found = await store.sessions.page(key=key, limit=LISTED)
        counts = await store.tasks.count_children([session.id for session in found])
    if as_json:
        say_rows(session_view(session, children_count=counts.get(session.id, 0)) for session in found)
        return
    for session in found:
        say(f"{head_line(session)}{_children(counts.get(session.id, 0))}")
    if not found:
        say("There are no conversations.")


async def print_trees(settings: Settings, session_id: str | None, key: SessionKey | None, *, as_json: bool) -> None:
    async with checked_store(settings) as store:
        roots = (
            [session_id] if session_id else [head.id for head in await store.tasks.heads(key=key, limit=TREES_SHOWN)]
        )
        found = [await _family(store, root) for root in roots]
    now_ms = SystemClock().now_ms()
    if as_json:
        say_rows(nested(family, tasks, now_ms=now_ms) for family, tasks in found)
        return
    for family, tasks in found:
        for line in tree_lines(family, tasks, now_ms=now_ms):
            say(line)
    if not found:
        say("No conversation has had a sub-agent.")


async def _family(store: Store, session_id: str) -> tuple[Sequence[Session], Sequence[SubTask]]:
    family = await store.tasks.tree(session_id)
    if not family:
        raise NoSuchSession(f"there is no session {session_id}; `trivet sessions` shows them")
    return family, await store.tasks.tasks_below(session_id)


def tree_lines(family: Sequence[Session], tasks: Sequence[SubTask], *, now_ms: int) -> list[str]:
    """Write a family, root first, one line for each session; those of sub-agents begin with ⤷ below the session they
    work for."""
    by_session = {task.session_id: task for task in tasks}
    depths: dict[str, int] = {}
    lines = []
    for session in family:
        depth = depths[session.id] = depths.get(session.parent_session_id or "", -1) + 1
        line = _child_line(session, by_session.get(session.id), now_ms) if session.channel else head_line(session)
        lines.append(f"{'  ' * (depth - 1)}⤷ {line}" if depth else line)
    return lines


def head_line(session: Session) -> str:
    """Write the line of a person's conversation."""
    opened, mark = _moment(session.created_at_ms), "  (current)" if session.is_current else ""
    return f"{session.id}  {opened}  {session.key}  {_shown(session.title)}  {_cost(session)}{mark}"


def _child_line(session: Session, task: SubTask | None, now_ms: int) -> str:
    badge = f"[{session.channel.partition(':')[2]}]"
    if task is None:
        return f"{badge} {session.status.value}  {_shown(session.title)}  {_cost(session)}  {session.id}"
    state = f"{task.state.value} ({in_words(task.reason)})" if task.reason else task.state.value
    return f"{badge} {state}{_lasted(task, now_ms)}  {_shown(session.title)}  {_cost(session)}  {session.id}"


def _lasted(task: SubTask, now_ms: int) -> str:
    """Say how long it ran, or has run so far."""
    if not task.started_at_ms:
        return ""
    return f"  {ENGLISH.lasting((task.finished_at_ms or now_ms) - task.started_at_ms)}"


def _cost(session: Session) -> str:
    return f"{session.tokens:,} tokens  ${session.cost_usd:.4f}"


def _shown(title: str) -> str:
    return repr(title if len(title) <= _TITLE_SHOWN else f"{title[: _TITLE_SHOWN - 1]}…")


def _children(count: int) -> str:
    return f"  ⤷ {count}" if count else ""


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")[:19] + "Z"


def _parsed(key: str | None) -> SessionKey | None:
    return SessionKey.parse(key) if key else None


# `trivet trace` and `trivet dead`: what became of a message.


DEAD_SHOWN: Final = 50
_TEXT_SHOWN: Final = 80

dead = typer.Typer(help="Messages that could not be answered and were put aside.")

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
    as_json: JsonOption = False,
) -> None:
    """Show what became of a message, hop by hop, with times."""
    asyncio.run(_trace(loaded_and_warned(config).settings, id, as_json=as_json))


@lists(dead)
def list_dead(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the newest, newest first."""
    asyncio.run(_list(loaded_and_warned(config).settings, as_json=as_json))


@dead.command("retry")
def retry_dead(entry: EntryArgument, config: ConfigOption = None) -> None:
    """Put a message back on its lane, after what waits there."""
    asyncio.run(_settle(loaded_and_warned(config).settings, entry, is_retried=True))
    say(f"{entry} waits for an answer again.")


@dead.command("drop")
def drop_dead(entry: EntryArgument, config: ConfigOption = None) -> None:
    """Forget one of them."""
    asyncio.run(_settle(loaded_and_warned(config).settings, entry, is_retried=False))
    say(f"{entry} is forgotten.")


async def _trace(settings: Settings, id_: str, *, as_json: bool) -> None:
    from gateway.ops.admin.trace import hops_of, nothing_known  # noqa: PLC0415 - start-up

    async with operator_bus(settings) as bus, checked_store(settings) as store:
        hops = await hops_of(id_, store, bus)
    if not hops:
        raise NothingKnown(nothing_known(id_))
    if as_json:
        say_rows(HopView.of(hop) for hop in hops)
        return
    for hop in hops:
        say(f"{_moment(hop.at_ms):<24}  {hop.name:<16}  {hop.detail}".rstrip())


async def _list(settings: Settings, *, as_json: bool) -> None:
    async with operator_bus(settings) as bus:
        letters = await bus.dead_letters(DEAD_SHOWN)
    if as_json:
        say_rows(map(dead_letter_view, letters))
        return
    for letter in letters:
        what = f"{letter.message.key}  {letter.message.text[:_TEXT_SHOWN]!r}" if letter.message else "(unreadable)"
        say(f"{letter.entry_id:<20}  {_moment(letter.died_at_ms)}  {letter.reason}, {letter.attempts} runs  {what}")
    if not letters:
        say("There are no dead letters.")


async def _settle(settings: Settings, entry: str, *, is_retried: bool) -> None:
    async with operator_bus(settings) as bus:
        is_found = await (bus.retry_dead(entry) if is_retried else bus.drop_dead(entry))
    if not is_found:
        raise NothingKnown(f"there is no such dead letter as {entry}; `trivet dead list` shows them")
