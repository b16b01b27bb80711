"""Who may talk to the agent, and where: strangers who wait, people, places. Every change is a line of the audit."""

from __future__ import annotations

import math
from datetime import datetime

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.asked import ADMIN, owner_of, read
from gateway.admin.views import moment
from gateway.config.access import PlaceProfile, PlaceRoles, PlaceTools
from gateway.contracts.access import Audience, Pairing, PlaceApproval, PlaceRule, place_named
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.errors import Declined
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock
from gateway.doorkeeper import Doorkeeper, LockedOut, NoSuchCode
from gateway.limits import PAIRING_LOCKED_S, PAIRING_TTL_S, REASON_CHARS_MAX


class GrantView(BaseModel):
    """What was decided about one person."""

    key: str = Field(description="The person, such as `telegram:123456789`.")
    role: GrantRole
    reason: str = Field(description="Why, if somebody said so.")
    granted_by: str = Field(description="`cli`, `admin` (whoever held the admin token) or the key of an admin.")
    created_at: datetime


class GrantOrder(BaseModel):
    """What a person shall be."""

    model_config = ConfigDict(extra="forbid")

    role: GrantRole
    reason: str = Field(default="", max_length=REASON_CHARS_MAX, description="Why; only admins see it.")


class PairingView(BaseModel):
    """A stranger who waits to be let in."""

    code: str
    key: str = Field(description="Who it is.")
    name: str = Field(description="What he calls himself on his platform.")
    asked_at: datetime
    expires_at: datetime


class PairingOrder(BaseModel):
    """Let in whoever was given the code."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, max_length=64)
    role: GrantRole = GrantRole.MEMBER


class ApprovalView(BaseModel):
    """What an admin approved for good in one place."""

    place: str
    tool: str
    role: GrantRole = Field(description="The least role for whom it holds.")
    digest: str = Field(description="Of the one call that was approved; empty: every call of the tool.")
    approved_by: str
    approved_at: datetime


class PlaceView(BaseModel):
    """What was decided about one place, beside what the configuration says; null where nothing was."""

    place: str = Field(description="Such as `telegram:/-100456` or `discord:/987`.")
    audience: Audience | None
    guests: bool | None
    tools: list[str] | None
    profile: str | None
    roles: list[str] | None


class PlaceOrder(BaseModel):
    """What shall be different in a place. What is left out, or null, is as the configuration says."""

    model_config = ConfigDict(extra="forbid")

    audience: Audience | None = Field(default=None, description="Whom the agent listens to there.")
    guests: bool | None = Field(default=None, description="Whether strangers may talk to it there, as guests.")
    tools: PlaceTools | None = Field(default=None, description="The tools that may be used there at most.")
    profile: PlaceProfile | None = Field(default=None, description="Who it is there, until somebody chooses.")
    roles: PlaceRoles | None = Field(
        default=None, description="Ids of roles of the server: strangers with one of these may talk to it, as guests."
    )


def access_routes(keeper: Doorkeeper, clock: Clock) -> APIRouter:
    """The routes below /api/grants, /api/pairings, /api/places and /api/approvals."""
    router = APIRouter(prefix="/api", tags=["access"])
    _add_people(router, keeper)
    _add_strangers(router, keeper, clock)
    _add_places(router, keeper)
    _add_approvals(router, keeper)
    return router


def _add_people(router: APIRouter, keeper: Doorkeeper) -> None:
    @router.get("/grants")
    async def grants() -> list[GrantView]:
        """What was decided about people, oldest first."""
        return list(map(_grant_view, await keeper.grants()))

    @router.put("/grants/{key:path}", responses=refusals(409))
    async def grant(key: str, order: GrantOrder) -> GrantView:
        """Give a person a role, or block him: it counts for his next message."""
        owner = owner_of(key)
        try:
            await keeper.grant(owner, order.role, actor=ADMIN, reason=order.reason)
        except Declined as error:
            raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from error
        return next(_grant_view(found) for found in await keeper.grants() if found.key == owner)

    @router.delete("/grants/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def revoke(key: str) -> None:
        """Nothing is decided about this person any more; 404 if nothing was."""
        if not await keeper.revoke(owner_of(key), actor=ADMIN):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"nothing was decided about {key[:80]!r}")


def _add_strangers(router: APIRouter, keeper: Doorkeeper, clock: Clock) -> None:
    @router.get("/pairings")
    async def pairings() -> list[PairingView]:
        """Who waits to be let in, oldest first."""
        return list(map(_pairing_view, await keeper.pairings()))

    @router.post("/pairings", responses=refusals(404, 409, 429))
    async def pair(order: PairingOrder, request: Request) -> PairingView:
        """Let in whoever was given a code; he is told so in his chat. 404 for a code that nobody waits with; after five
        of these, 429 for an hour."""
        by = f"api:{request.client.host if request.client else ''}"
        try:
            paired = await keeper.pair(order.code, order.role, actor=ADMIN, by=by, taker=clock.new_id())
        except NoSuchCode as error:
            raise HTTPException(status.HTTP_404_NOT_FOUND, str(error)) from error
        except LockedOut as error:
            wait = {"Retry-After": str(min(PAIRING_LOCKED_S, math.ceil(error.wait_s)))}
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, str(error), wait) from error
        except Declined as error:
            raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from error
        return _pairing_view(paired)

    @router.delete("/pairings/{code}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def deny(code: str) -> None:
        """Turn down whoever was given a code; 404 for one that nobody waits with."""
        try:
            await keeper.deny(code, actor=ADMIN)
        except NoSuchCode as error:
            raise HTTPException(status.HTTP_404_NOT_FOUND, str(error)) from error


def _add_places(router: APIRouter, keeper: Doorkeeper) -> None:
    @router.get("/places")
    async def places() -> list[PlaceView]:
        """What is different from the configuration."""
        return [_place_view(name, rule) for name, rule in (await keeper.places()).items()]

    @router.put("/places/{place:path}")
    async def put(place: str, order: PlaceOrder) -> PlaceView:
        """Replace what was decided about a place: who may speak there counts for the next message, tools and profile
        for the next turn."""
        name = read(place, place_named)
        rule = PlaceRule(order.audience, order.guests, order.tools, order.profile, order.roles)
        await keeper.set_place(name, rule, actor=ADMIN)
        return _place_view(name, rule)

    @router.delete("/places/{place:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def reset(place: str) -> None:
        """A place is as it is configured, and all calls are asked about there that it says so of; 404 if nothing was
        decided about it."""
        if not await keeper.set_place(read(place, place_named), PlaceRule(), actor=ADMIN):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"nothing was decided about {place[:80]!r}")


def _add_approvals(router: APIRouter, keeper: Doorkeeper) -> None:
    @router.get("/approvals")
    async def approvals() -> list[ApprovalView]:
        """What admins approved for good, by place."""
        return list(map(_approval_view, await keeper.approvals()))

    @router.delete("/approvals/{place:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def ask_again(place: str, tool: str) -> None:
        """Calls of this tool are asked about in that place again; 404 if they were."""
        if not await keeper.ask_again(read(place, place_named), tool, actor=ADMIN):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"nothing of {tool[:80]!r} was approved for good there")


def _approval_view(approval: PlaceApproval) -> ApprovalView:
    return ApprovalView(
        place=str(approval.place),
        tool=approval.tool,
        role=approval.role,
        digest=approval.digest,
        approved_by=approval.approved_by,
        approved_at=moment(approval.approved_at_ms),
    )


def _grant_view(grant: Grant) -> GrantView:
    return GrantView(
        key=str(grant.key),
        role=grant.role,
        reason=grant.reason,
        granted_by=grant.granted_by,
        created_at=moment(grant.created_at_ms),
    )


def _pairing_view(pairing: Pairing) -> PairingView:
    return PairingView(
        code=pairing.code,
        key=str(pairing.owner),
        name=pairing.name,
        asked_at=moment(pairing.asked_at_ms),
        expires_at=moment(pairing.asked_at_ms + PAIRING_TTL_S * 1000),
    )


def _place_view(place: SessionKey, rule: PlaceRule) -> PlaceView:
    return PlaceView(
        place=str(place),
        audience=rule.audience,
        guests=rule.lets_guests,
        tools=None if rule.tools is None else list(rule.tools),
        profile=rule.profile,
        roles=None if rule.roles is None else list(rule.roles),
    )
