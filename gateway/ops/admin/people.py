"""The API of people: who is known, export, erasure, schedules, memory, linked accounts, usage."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette import status

from gateway.access import AccessService
from gateway.bus.files import Vault
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.access import KnownPerson
from gateway.contracts.budgets import Period, UsageSum, day_begins_ms, day_of
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import GrantRole
from gateway.limits import ERASE_PATIENCE_S
from gateway.ops.admin.access import LimitsView
from gateway.ops.admin.http import ADMIN, PAGE_DEFAULT, PAGE_MAX, Limit, Number, Offset, found, owner_of, refusals
from gateway.ops.admin.views import ApiView, Erased, KeyText, KnownMoment, Moment, moment
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.accounts import LinkStore
from gateway.store.export import ERASED
from gateway.store.subagents import TaskStore
from gateway.store.usage import UsageStore

_LOOK_EVERY_S: Final = 0.05
_PEOPLE_DEFAULT: Final = 100
USAGE_DAYS: Final = 30
"""The days of usage that are shown with a person."""


class KnownPersonView(ApiView):
    """Somebody who has spoken, or was decided about; or a shared place."""

    key: KeyText = Field(description="The person, such as `telegram:123456789`, or a shared place.")
    name: str = Field(description="The person's own name; empty where it is not known.")
    role: GrantRole | None = Field(description="Null for a stranger.")
    last_seen: KnownMoment = Field(validation_alias="seen_at_ms")
    lanes: int = Field(description="Places in which the person has a conversation.")
    turns: int = Field(description="That called a model, in the last 30 days.")
    tokens: int = Field(description="Likewise.")
    cost: float = Field(description="US dollars, likewise.")


class LaneView(BaseModel):
    """One place in which a person speaks."""

    key: str
    waiting: int = Field(description="Messages that wait for a turn of their own.")
    running: bool = Field(description="A turn runs.")


class WholePersonView(KnownPersonView):
    """One person with all that an operator decides about."""

    accounts: list[str] = Field(description="All accounts of the person; one where none are linked.")
    places: list[LaneView]
    limits: LimitsView | None = Field(description="What was decided about the person's limits; null for nothing.")
    reason: str = Field(description="Why the role was given, if somebody said so.")


def known_people(store: Store, keeper: AccessService, figures: Operator, lanes: Lanes, clock: Clock) -> APIRouter:
    """Build the routes that read below /api/v1/people."""
    router = APIRouter(prefix="/api/v1/people", tags=["users"])

    async def told(known: Sequence[KnownPerson], names: Mapping[SessionKey, str]) -> list[dict[str, Any]]:
        """Return, for each of these people, what their views say that is not known with the person."""
        today = day_of(clock.now_ms())
        span = Period(day_begins_ms(today + 1 - USAGE_DAYS), day_begins_ms(today + 1))
        spent = await store.usage.of_some([person.key for person in known], span)
        return [
            {
                "name": names.get(person.key, ""),
                "role": keeper.role_of(person.key, person.granted),
                "turns": sums.turns,
                "tokens": sums.tokens,
                "cost": sums.cost_usd,
            }
            for person in known
            for sums in (spent.get(person.key, UsageSum()),)
        ]

    @router.get("")
    async def everybody(
        q: Annotated[str, Query(max_length=200, description="A part of a key or of a name.")] = "",
        limit: Limit = _PEOPLE_DEFAULT,
        offset: Offset = 0,
    ) -> list[KnownPersonView]:
        """List who has spoken or was decided about, last seen first."""
        names = await figures.names()
        called = [key for key, name in names.items() if q.strip() and q.strip().lower() in name.lower()]
        known = await store.people.page(words=q, owners=called, limit=limit, offset=offset)
        return [KnownPersonView.of(each, **more) for each, more in zip(known, await told(known, names), strict=True)]

    @router.get("/{key:path}", responses=refusals(404))
    async def person(key: str) -> WholePersonView:
        """Show one person, with the places where they speak, and what waits there. 404 for somebody who has no
        conversation and about whom nothing was decided."""
        owner = owner_of(key)
        alike = await store.people.page(words=str(owner), owners=[owner], limit=PAGE_MAX)
        known = found([each for each in alike if each.key == owner], f"nobody is known as {str(owner)[:80]!r}")
        (more,) = await told(known, await figures.names())
        reasons = [str(each.reason) for each in await keeper.book.grants() if each.key == owner]
        keys = await store.people.keys(owner)
        depths = [(each, await lanes.depth(each)) for each in keys]
        rule = (await keeper.book.limit_rules()).get(owner)
        return WholePersonView.of(
            known[0],
            **more,
            accounts=sorted(map(str, await store.links.accounts_of(owner))),
            places=[LaneView(key=str(each), waiting=waiting, running=runs) for each, (waiting, runs) in depths],
            limits=None if rule is None else LimitsView.of(rule, whom=owner),
            reason="".join(reasons),
        )

    return router


DEAD_LETTERS: Final = "dead_letters"
"""The word of an erasure for those that it dropped."""


def people(store: Store, erasing: PersonEraser, scrubber: Scrubber) -> APIRouter:
    """Build the routes below /api/v1/users. A key with a place stands for the user in it; a shared place for itself."""
    router = APIRouter(prefix="/api/v1/users", tags=["users"])

    @router.get("/{key:path}/export", response_class=Response)
    async def export(key: str) -> Response:
        """Export everything that is kept of a user, as one JSON document. The files that the user sent are in the
        workspaces, named in the messages that brought them."""
        return Response(await store.people.export(owner_of(key), clean=scrubber.scrub), media_type="application/json")

    @router.delete("/{key:path}")
    async def erase(key: str) -> Erased:
        """Delete every trace of a user, at all linked accounts: grants, kept secrets, dead letters and the files of
        the user's conversations on this machine included. The user's turns and sub-agents are ended first, in any
        process, and waiting messages are dropped. A process that is cut off at this moment may still write
        something; ask again to erase that, too."""
        return await erasing.erase(owner_of(key))

    return router


@dataclass(eq=False, repr=False)
class PersonEraser:
    """Deletes every trace of a person, for the API and the command line alike. `workspaces` is where files of
    conversations are; None: on another machine."""

    store: Store
    keeper: AccessService
    operator: Operator
    lanes: Lanes
    vault: Vault
    clock: Clock
    workspaces: Path | None

    async def erase(self, owner: SessionKey) -> Erased:
        """End the person's work, then delete; safe to repeat. Raises `StoreUnavailable` and `BusUnavailable`."""
        store = self.store
        accounts = await store.links.accounts_of(owner)
        await _end_work({*accounts, *await store.people.keys(owner)}, self.lanes, store.tasks, self.clock)
        for account in accounts:
            await self.vault.drop_all(account)
        letters = sum([await self.operator.forget(account) for account in accounts])
        keys = {*accounts, *await store.people.keys(owner)}
        for key in keys:
            await self.lanes.forget_met(key)
        files = await asyncio.to_thread(_erase_files, self.workspaces, keys) if self.workspaces is not None else 0
        erased = await store.people.erase(owner)
        await self.keeper.project()
        elsewhere = {WORKSPACES: files, DEAD_LETTERS: letters}
        rows = {**erased, **{name: count for name, count in elsewhere.items() if count}}
        await store.audit.note(ADMIN, "user.erase", ERASED, rows)  # of whom nothing is left, the name neither
        return Erased(key=str(owner), rows=rows)


async def _end_work(keys: Collection[SessionKey], lanes: Lanes, book: TaskStore, clock: Clock) -> None:
    """Return when nothing runs in these lanes any more that might write, or after a while: a process that is paused or
    cut off finds its rows gone when it is back, and ends what it ran for them."""
    for key in keys:
        await lanes.stop(key)
    until_s = clock.monotonic_s() + ERASE_PATIENCE_S
    while await _is_at_work(keys, lanes, book) and clock.monotonic_s() < until_s:  # noqa: ASYNC110 - other processes end
        await asyncio.sleep(_LOOK_EVERY_S)


async def _is_at_work(keys: Collection[SessionKey], lanes: Lanes, book: TaskStore) -> bool:
    """Tell whether a turn or a sub-agent runs; sub-agents that were started since are told to end, too."""
    live = sum([await book.want_cancelled(key) for key in keys])
    depths = [await lanes.depth(key) for key in keys]
    return live > 0 or any(is_running for _, is_running in depths)


def _erase_files(workspaces: Path, keys: Iterable[SessionKey]) -> int:
    """Delete the workspaces of these keys; how many there were."""
    homes = [home for home in (workspaces / folder_name(key) for key in keys) if home.is_dir()]
    for home in homes:
        shutil.rmtree(home)
    return len(homes)


# What the agent keeps for people: their schedules, and what it remembers of them.


class ScheduleView(ApiView):
    """A reminder or a task that is still to come."""

    number: int = Field(description="What its owner calls it.")
    owner: KeyText
    name: str = Field(description="The owner's own name; empty where it is not known.")
    key: KeyText = Field(description="The lane it goes to.")
    kind: str = Field(description="`reminder`, `task` or `heartbeat`.")
    text: str
    recurrence: str = Field(description="Empty: it happens once.")
    zone: str = Field(description="The time zone whose clock the rule reads.")
    next_due: Moment = Field(validation_alias="next_due_ms")
    created_at: Moment = Field(validation_alias="created_at_ms")


class FactView(ApiView):
    """Something that is remembered of a person."""

    number: int = Field(description="What its owner calls it.")
    key: KeyText = Field(description="The account it was learned of.")
    text: str
    place: str = Field(description="Where it was learned; empty for a direct message.")
    origin: str = Field(description="Whether the person said so, or it was concluded.")
    is_shared: bool = Field(description="Its owner lets it be read outside of its place.")
    created_at: Moment = Field(validation_alias="created_at_ms")


def personal_data_routes(store: Store, bus: Operator) -> APIRouter:
    """Build the routes below /api/v1/schedules and /api/v1/memory. Each change is a line of the audit."""
    router = APIRouter(prefix="/api/v1", tags=["users"])

    @router.get("/schedules")
    async def schedules(key: str | None = None, limit: Limit = PAGE_DEFAULT) -> list[ScheduleView]:
        """List what is still to come, what is due first in front; `key` selects one person's."""
        coming = await store.schedules.coming(owner_of(key) if key else None, limit=limit)
        names = await bus.names()
        return [ScheduleView.of(each, name=names.get(each.owner, "")) for each in coming]

    @router.delete("/schedules/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def cancel(key: str, number: Number) -> None:
        """End a schedule for good; 404 when its owner has no active one of that number."""
        owner = owner_of(key)
        found(await store.schedules.cancel(owner, number), f"{str(owner)[:80]!r} has no schedule {number}")
        await store.audit.note(ADMIN, "schedule.cancel", f"user:{owner}", {"number": number})

    @router.get("/memory")
    async def memory(key: str, q: str = "", limit: Limit = PAGE_DEFAULT) -> list[FactView]:
        """List what is remembered of a person, wherever it was learned: what has to do with `q`, or the newest."""
        return list(map(FactView.of, await store.memories.recall(owner_of(key), q, limit=limit)))

    @router.delete("/memory/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def forget(key: str, number: Number) -> None:
        """Forget a fact; 404 when nothing of that number is remembered of the person."""
        owner = owner_of(key)
        found(await store.memories.forget(owner, [number]), f"nothing is remembered as {number}")
        await store.audit.note(ADMIN, "memory.forget", f"user:{owner}", {"number": number})

    return router


# Accounts that belong to one person: shown, and unlinked.


class PersonView(BaseModel):
    """One person, by all accounts."""

    keys: list[str] = Field(description="Such as `discord:987` and `telegram:123`, in order of their names.")


def link_routes(links: LinkStore, keeper: AccessService, clock: Clock) -> APIRouter:
    """Build the routes below /api/v1/links."""
    router = APIRouter(prefix="/api/v1/links", tags=["access"])

    @router.get("")
    async def persons() -> list[PersonView]:
        """List everybody who has linked several accounts."""
        return [PersonView(keys=sorted(map(str, accounts))) for accounts in await links.persons()]

    @router.get("/{key:path}")
    async def person(key: str) -> PersonView:
        """Show all accounts of one person; the account alone where nothing is linked."""
        return PersonView(keys=list(map(str, await links.accounts_of(owner_of(key)))))

    @router.delete("/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def part(key: str) -> None:
        """Unlink this account, so that it is a person of its own again; 404 if it was not linked."""
        owner = owner_of(key)
        parted = await links.part(owner, [owner], actor=ADMIN, now_ms=clock.now_ms())
        found(parted, f"{str(owner)[:80]!r} is linked with no other account")
        await keeper.project()

    return router


# Usage per user and day, newest first.


_DAYS_MAX: Final = 366
_DAYS_DEFAULT: Final = 30


class UsageView(ApiView):
    """The cost of one user's model calls on one UTC day, whatever they were for."""

    key: KeyText = Field(description="The user, such as `telegram:123456789`, or a shared place.")
    day: date
    calls: int
    turns: int = Field(description="Turns that called a model.")
    prompt_tokens: int = Field(description="Tokens in, cached ones included.")
    completion_tokens: int
    cached_tokens: int = Field(description="Tokens in that came from the provider's prompt cache.")
    cost: float = Field(validation_alias="cost_usd", description="US dollars.")


def usage_routes(book: UsageStore, clock: Clock) -> APIRouter:
    """Build `GET /api/v1/usage`."""
    router = APIRouter(prefix="/api/v1/usage", tags=["usage"])

    @router.get("")
    async def usage(
        key: str | None = None,
        days: Annotated[int, Query(ge=1, le=_DAYS_MAX)] = _DAYS_DEFAULT,
        limit: Limit = _PEOPLE_DEFAULT,
        offset: Offset = 0,
    ) -> list[UsageView]:
        """List the usage per user and UTC day, of the last `days` days with today; `key` shows that of one user."""
        today = day_of(clock.now_ms())
        span = Period(day_begins_ms(today + 1 - days), day_begins_ms(today + 1))
        owner = owner_of(key) if key else None
        rows = await book.by_day(owner, span, limit=limit, offset=offset)
        return [UsageView.of(each.sum, key=each.owner, day=moment(day_begins_ms(each.day)).date()) for each in rows]

    return router
