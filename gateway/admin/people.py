"""What the operator may do with everything that belongs to one person: hand it out, erase it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from gateway.admin.asked import owner_of
from gateway.admin.views import Erased
from gateway.bus.files import Vault
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.workspaces import WORKSPACES, folder_name
from gateway.doorkeeper import Doorkeeper
from gateway.limits import ERASE_PATIENCE_S
from gateway.store import Store
from gateway.store.subagents import TaskStore

_LOOK_EVERY_S: Final = 0.05

DEAD_LETTERS: Final = "dead_letters"
"""What an erasure calls those that it dropped."""


def people(
    store: Store,
    keeper: Doorkeeper,
    figures: Operator,
    lanes: Lanes,
    vault: Vault,
    scrubber: Scrubber,
    clock: Clock,
    workspaces: Path | None,
) -> APIRouter:
    """The routes below /api/users. A key with a place stands for the user in it; a shared place for itself."""
    router = APIRouter(prefix="/api/users", tags=["users"])

    @router.get("/{key:path}/export", response_class=Response)
    async def export(key: str) -> Response:
        """Everything that is kept of a user, as one JSON document. The files that he sent are in the workspaces, named
        where his messages stand."""
        return Response(await store.people.export(owner_of(key), clean=scrubber.scrub), media_type="application/json")

    @router.delete("/{key:path}")
    async def erase(key: str) -> Erased:
        """Delete every trace of a user, at all accounts that he linked, what was granted to him, his kept secrets,
        his dead letters and the files of his conversations on this machine included. His turns and sub-agents are ended
        first, whichever process runs them, and his messages that wait are dropped. What a process still writes that is
        cut off at this moment is erased by asking again."""
        owner = owner_of(key)
        ends = await store.links.ends_of(owner)
        await _end_work({*ends, *await store.people.keys(owner)}, lanes, store.tasks, clock)
        for end in ends:
            await vault.drop_all(end)
        letters = sum([await figures.forget(end) for end in ends])
        keys = {*ends, *await store.people.keys(owner)}
        files = await asyncio.to_thread(_erase_files, workspaces, keys) if workspaces is not None else 0
        erased = await store.people.erase(owner)
        await keeper.project()
        elsewhere = {WORKSPACES: files, DEAD_LETTERS: letters}
        return Erased(key=str(owner), rows={**erased, **{name: count for name, count in elsewhere.items() if count}})

    return router


async def _end_work(keys: Collection[SessionKey], lanes: Lanes, book: TaskStore, clock: Clock) -> None:
    """Return when nothing runs in these lanes any more that might write, or after a while: a process that is paused or
    cut off finds its rows gone when it is back, and ends what it ran for them."""
    for key in keys:
        await lanes.stop(key)
    until_s = clock.monotonic_s() + ERASE_PATIENCE_S
    while await _is_at_work(keys, lanes, book) and clock.monotonic_s() < until_s:  # noqa: ASYNC110 - other processes end
        await asyncio.sleep(_LOOK_EVERY_S)


async def _is_at_work(keys: Collection[SessionKey], lanes: Lanes, book: TaskStore) -> bool:
    """Whether a turn or a sub-agent runs; sub-agents that were started since are told to end, too."""
    live = sum([await book.want_cancelled(key) for key in keys])
    depths = [await lanes.depth(key) for key in keys]
    return live > 0 or any(is_running for _, is_running in depths)


def _erase_files(workspaces: Path, keys: Iterable[SessionKey]) -> int:
    """Delete the workspaces of these keys; how many there were."""
    homes = [home for home in (workspaces / folder_name(key) for key in keys) if home.is_dir()]
    for home in homes:
        shutil.rmtree(home)
    return len(homes)
