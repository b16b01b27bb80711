"""Accounts that are one person: shown, and parted."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.asked import ADMIN, owner_of
from gateway.contracts.ports import Clock
from gateway.doorkeeper import Doorkeeper
from gateway.store.accounts import LinkStore


class PersonView(BaseModel):
    """One person, by all accounts."""

    keys: list[str] = Field(description="Such as `discord:987` and `telegram:123`, in order of their names.")


def link_routes(links: LinkStore, keeper: Doorkeeper, clock: Clock) -> APIRouter:
    """The routes below /api/links."""
    router = APIRouter(prefix="/api/links", tags=["access"])

    @router.get("")
    async def persons() -> list[PersonView]:
        """Everybody who has linked several accounts."""
        return [PersonView(keys=sorted(map(str, ends))) for ends in await links.persons()]

    @router.get("/{key:path}")
    async def person(key: str) -> PersonView:
        """All accounts of one person; the account alone where nothing is linked."""
        return PersonView(keys=list(map(str, await links.ends_of(owner_of(key)))))

    @router.delete("/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def part(key: str) -> None:
        """This account is a person of its own again; 404 if it was."""
        owner = owner_of(key)
        if not await links.part(owner, [owner], actor=ADMIN, now_ms=clock.now_ms()):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"{str(owner)[:80]!r} is linked with no other account")
        await keeper.project()

    return router
