"""The API of access: strangers who wait, people, places, limits, programs, and the audit trail, in which every change
is a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette import status

from gateway.access import AccessService, LockedOut
from gateway.clients import CHANNEL, new_client, token_of
from gateway.config.access import PlaceProfile, PlaceRoles, PlaceTools
from gateway.config.limits import Count, PerMinute, Usd
from gateway.contracts.access import GIVEN, Audience, PlaceRule, place_named
from gateway.contracts.budgets import NANO_PER_USD, LimitRule, limited_named, nano_of
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import GrantRole
from gateway.limits import AUDITED_SHOWN_DEFAULT, AUDITED_SHOWN_MAX, PAIRING_LOCKED_S, PAIRING_TTL_S, REASON_CHARS_MAX
from gateway.ops.admin.http import ADMIN, NUMBER_MAX, PAGE_MAX, found, owner_of, refusals
from gateway.ops.admin.views import ApiView, KeyText, Moment, known_moment, moment
from gateway.scrub import Scrubber
from gateway.store.export import PeopleStore
from gateway.store.subagents import SubTypeStore


class GrantView(ApiView):
    """The decision about one person."""

    key: KeyText = Field(description="The person, such as `telegram:123456789`.")
    role: GrantRole
    reason: str = Field(description="Why, if somebody said so.")
    granted_by: str = Field(description="`cli`, `admin` (whoever held the admin token) or the key of an admin.")
    created_at: Moment = Field(validation_alias="created_at_ms")


class GrantOrder(BaseModel):
    """The role that a person shall have."""

    model_config = ConfigDict(extra="forbid")

    role: GrantRole
    reason: str = Field(default="", max_length=REASON_CHARS_MAX, description="Why; only admins see it.")


def _expiry(asked_at_ms: int) -> datetime:
    return moment(asked_at_ms + PAIRING_TTL_S * 1000)


class PairingView(ApiView):
    """A stranger who waits to be let in."""

    code: str
    key: KeyText = Field(validation_alias="owner", description="Who it is.")
    name: str = Field(description="Display name on the platform.")
    asked_at: Moment = Field(validation_alias="asked_at_ms")
    expires_at: Annotated[datetime, BeforeValidator(_expiry)] = Field(validation_alias="asked_at_ms")


class PairingOrder(BaseModel):
    """Let in the stranger with this code."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, max_length=64)
    role: GrantRole = GrantRole.MEMBER


class ApprovalView(ApiView):
    """An admin's lasting approval in one place."""

    place: KeyText
    tool: str
    role: GrantRole = Field(description="The least role for whom it holds.")
    digest: str = Field(description="Of the one call that was approved; empty: every call of the tool.")
    approved_by: str
    approved_at: Moment = Field(validation_alias="approved_at_ms")


class PlaceView(ApiView):
    """The decision about one place, besides what the configuration says; null where nothing was decided."""

    place: KeyText = Field(description="Such as `telegram:/-100456` or `discord:/987`.")
    audience: Audience | None
    guests: bool | None = Field(validation_alias="lets_guests")
    tools: Sequence[str] | None
    profile: str | None
    roles: Sequence[str] | None


class PlaceOrder(BaseModel):
    """The changes of a place. What is left out, or null, is as the configuration says."""

    model_config = ConfigDict(extra="forbid")

    audience: Audience | None = Field(default=None, description="Whom the agent listens to there.")
    guests: bool | None = Field(default=None, description="Whether strangers may talk to it there, as guests.")
    tools: PlaceTools | None = Field(default=None, description="The tools that may be used there at most.")
    profile: PlaceProfile | None = Field(default=None, description="Who it is there, until somebody chooses.")
    roles: PlaceRoles | None = Field(
        default=None, description="Ids of roles of the server: strangers with one of these may talk to it, as guests."
    )


def access_routes(keeper: AccessService, clock: Clock) -> APIRouter:
    """Build the routes below /api/v1/grants, /api/v1/pairings, /api/v1/places and /api/v1/approvals."""
    router = APIRouter(prefix="/api/v1", tags=["access"])
    _add_people(router, keeper)
    _add_strangers(router, keeper, clock)
    _add_places(router, keeper)
    _add_approvals(router, keeper)
    return router


def _add_people(router: APIRouter, keeper: AccessService) -> None:
    @router.get("/grants")
    async def grants() -> list[GrantView]:
        """List the decisions about people, oldest first."""
        return list(map(GrantView.of, await keeper.book.grants()))

    @router.put("/grants/{key:path}", responses=refusals(409))
    async def grant(key: str, order: GrantOrder) -> GrantView:
        """Give a person a role, or block that person: it counts for the next message."""
        owner = owner_of(key)
        await keeper.grant(owner, order.role, actor=ADMIN, reason=order.reason)
        return next(GrantView.of(each) for each in await keeper.book.grants() if each.key == owner)

    @router.delete("/grants/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def revoke(key: str) -> None:
        """Withdraw the decision about this person; 404 if there was none."""
        found(await keeper.revoke(owner_of(key), actor=ADMIN), f"nothing was decided about {key[:80]!r}")


def _add_strangers(router: APIRouter, keeper: AccessService, clock: Clock) -> None:
    @router.get("/pairings")
    async def pairings() -> list[PairingView]:
        """List the people who wait to be let in, oldest first."""
        return list(map(PairingView.of, await keeper.bus.pairings()))

    @router.post("/pairings", responses=refusals(404, 409, 429))
    async def pair(order: PairingOrder, request: Request) -> PairingView:
        """Let in the person who was given a code, who is told so in the chat with the bot. 404 for a code that
        nobody waits with; after five of these, 429 for an hour."""
        by = f"api:{request.client.host if request.client else ''}"
        try:
            paired = await keeper.pair(order.code, order.role, actor=ADMIN, by=by, taker=clock.new_id())
        except LockedOut as error:
            wait = {"Retry-After": str(min(PAIRING_LOCKED_S, math.ceil(error.wait_s)))}
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, str(error), wait) from error
        return PairingView.of(paired)

    @router.delete("/pairings/{code}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def deny(code: str) -> None:
        """Turn down the person who was given a code; 404 for a code that nobody waits with."""
        await keeper.deny(code, actor=ADMIN)


def _add_places(router: APIRouter, keeper: AccessService) -> None:
    @router.get("/places")
    async def places() -> list[PlaceView]:
        """List the places whose rules differ from the configuration."""
        return [PlaceView.of(rule, place=name) for name, rule in (await keeper.book.place_rules()).items()]

    @router.put("/places/{place:path}")
    async def put(place: str, order: PlaceOrder) -> PlaceView:
        """Replace the decision about a place: the people who may speak there count for the next message, tools and
        profile for the next turn."""
        name = place_named(place)
        rule = PlaceRule(order.audience, order.guests, order.tools, order.profile, order.roles)
        await keeper.set_place(name, rule, actor=ADMIN)
        return PlaceView.of(rule, place=name)

    @router.delete("/places/{place:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def reset(place: str) -> None:
        """Reset a place to its configuration and withdraw its approvals: calls that the configuration asks about are
        asked about again; 404 if nothing was decided about it."""
        has_changed = await keeper.set_place(place_named(place), PlaceRule(), actor=ADMIN)
        found(has_changed, f"nothing was decided about {place[:80]!r}")


def _add_approvals(router: APIRouter, keeper: AccessService) -> None:
    @router.get("/approvals")
    async def approvals() -> list[ApprovalView]:
        """List the tools that admins approved for good, by place."""
        return list(map(ApprovalView.of, await keeper.book.place_approvals()))

    @router.delete("/approvals/{place:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def ask_again(place: str, tool: str) -> None:
        """Ask about calls of this tool in that place again; 404 if it was not approved for good there."""
        has_changed = await keeper.ask_again(place_named(place), tool, actor=ADMIN)
        found(has_changed, f"nothing of {tool[:80]!r} was approved for good there")


# Limits of a day, and of the pace of messages: shown and changed, on top of the configuration.


class LimitsOrder(BaseModel):
    """The limits of one person, or of each person of a role. What is left out, or null, is as the configuration says; 0
    lifts a limit."""

    model_config = ConfigDict(extra="forbid")

    tokens: Count | None = Field(default=None, description="Tokens per UTC day.")
    usd: Usd | None = Field(default=None, description="US dollars per UTC day.")
    turns: Count | None = Field(default=None, description="Turns that ask a model per UTC day.")
    messages_per_minute: PerMinute | None = Field(default=None, description="How fast one may write.")


def _dollars(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else nano_usd / NANO_PER_USD


class LimitsView(ApiView):
    """The decision about one person or one role; null where nothing was decided, 0 where there is no limit."""

    whom: KeyText = Field(description="A person, such as `telegram:123456789`, or `guest`, `member`, `admin`.")
    tokens: int | None
    usd: Annotated[float | None, BeforeValidator(_dollars)] = Field(validation_alias="nano_usd")
    turns: int | None
    messages_per_minute: int | None = Field(validation_alias="per_minute")


def limit_routes(keeper: AccessService) -> APIRouter:
    """Build the routes below /api/v1/limits."""
    router = APIRouter(prefix="/api/v1/limits", tags=["access"])

    @router.get("")
    async def limits() -> list[LimitsView]:
        """List the limits that differ from the configuration."""
        return [LimitsView.of(rule, whom=whom) for whom, rule in (await keeper.book.limit_rules()).items()]

    @router.put("/{whom:path}", responses=refusals(409))
    async def put(whom: str, order: LimitsOrder) -> LimitsView:
        """Replace the decision about a person or a role: it counts for the next message and the next call of a model,
        in every process."""
        limited, rule = limited_named(whom), _rule_of(order)
        await keeper.change_limits(limited, lambda _: rule, actor=ADMIN)
        return LimitsView.of(rule, whom=limited)

    @router.delete("/{whom:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def reset(whom: str) -> None:
        """Reset the limits to the configuration; 404 if nothing was decided."""
        has_changed = await keeper.change_limits(limited_named(whom), lambda _: LimitRule(), actor=ADMIN)
        found(has_changed, f"nothing was decided about the limits of {whom[:80]!r}")

    return router


def _rule_of(order: LimitsOrder) -> LimitRule:
    nano_usd = None if order.usd is None else nano_of(order.usd)
    return LimitRule(order.tokens, nano_usd, order.turns, order.messages_per_minute)


# Programs that talk to the agent over HTTP.


class ClientView(ApiView):
    """A program that may talk to the agent, or is blocked."""

    key: KeyText = Field(description="Such as `api:shop-4f2a9c`.")
    role: GrantRole
    granted_by: str = Field(description="Who gave it this role: `cli`, `admin` or the key of an admin.")
    created_at: Moment = Field(validation_alias="created_at_ms", description="When that was.")
    last_used: datetime | None = Field(description="When it last began or went on with a conversation.")


class ClientOrder(LimitsOrder):
    """A program to let in, and limits of its own, if it shall have any."""

    name: str = Field(description="Lower case letters, digits and underscores; more is put after it.")
    role: GrantRole = Field(default=GrantRole.MEMBER, description="Such as `member`; it cannot be blocked.")


class NewClientView(BaseModel):
    """A program that was let in."""

    key: str = Field(description="Such as `api:shop-4f2a9c`.")
    role: GrantRole
    token: str = Field(description="What proves that it is this program; it is not shown again.")


def client_routes(keeper: AccessService, people: PeopleStore, token_key: str) -> APIRouter:
    """Build the routes below /api/v1/clients; `token_key` is that of clients' tokens."""
    router = APIRouter(prefix="/api/v1/clients", tags=["access"])

    @router.get("")
    async def clients() -> list[ClientView]:
        """List the programs, oldest first."""
        known = await people.page(words=f"{CHANNEL}:", limit=PAGE_MAX)
        seen = {person.key: person.seen_at_ms for person in known}
        return [
            ClientView.of(grant, last_used=known_moment(seen.get(grant.key, 0)))
            for grant in await keeper.book.grants()
            if grant.key.channel == CHANNEL
        ]

    @router.post("", status_code=status.HTTP_201_CREATED, response_model=NewClientView)
    async def add(order: ClientOrder) -> JSONResponse:
        """Let a program in; the answer has its token, which is not shown again."""
        if order.role not in GIVEN:
            raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, f"there are {', '.join(GIVEN)}")
        client, rule = new_client(order.name), _rule_of(order)
        await keeper.change_limits(client, lambda _: rule, actor=ADMIN)  # first: it is never without them
        await keeper.grant(client, order.role, actor=ADMIN)
        made = NewClientView(key=str(client), role=order.role, token=token_of(token_key, client))
        return JSONResponse(made.model_dump(mode="json"), status.HTTP_201_CREATED)  # else the token would be scrubbed

    @router.delete("/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def remove(key: str) -> None:
        """Listen to a program no more, from its next request on: its token is worth nothing for good. 404 for one that
        is not there."""
        client = owner_of(key)
        is_gone = client.channel == CHANNEL and await keeper.revoke(client, actor=ADMIN)
        found(is_gone, f"there is no program {key[:80]!r}")

    return router


# The audit trail: the changes that operators made by the API.


_PLAIN: Final = "^[!-~]{1,200}$"


def _read(text: str) -> Any:
    """Read the values that were written down; return the text itself where the scrubber cut a piece out of it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


WrittenDown = Annotated[Any, BeforeValidator(_read)]


class AuditedView(ApiView):
    """One change."""

    number: int = Field(description="Grows from line to line.")
    at: Moment = Field(validation_alias="at_ms")
    actor: str = Field(description="`admin`: whoever held the admin token.")
    action: str = Field(description="Such as `sub-type.change` or `sub-type.reset`.")
    subject: str = Field(description="What was changed, such as `sub-type:code`.")
    before: WrittenDown = Field(description="How it read before.")
    after: WrittenDown = Field(description="How it reads since.")


def audit_routes(book: SubTypeStore, scrubber: Scrubber) -> APIRouter:
    """Build `GET /api/v1/audit`."""
    router = APIRouter(prefix="/api/v1/audit", tags=["audit"])

    @router.get("")
    async def audit(
        subject: Annotated[str | None, Query(pattern=_PLAIN)] = None,
        below: Annotated[int | None, Query(ge=1, le=NUMBER_MAX, description="Lines older than this number.")] = None,
        limit: Annotated[int, Query(ge=1, le=AUDITED_SHOWN_MAX)] = AUDITED_SHOWN_DEFAULT,
    ) -> list[AuditedView]:
        """List the audit trail, newest first; ask again `below` the last `number` for the entries before it. `subject`
        selects one thing, such as `sub-type:code`. Of each actor the last 2,000 lines are kept."""
        about = None if subject is None else scrubber.scrub(subject)
        return list(map(AuditedView.of, await book.audit(subject=about, below=below, limit=limit)))

    return router
