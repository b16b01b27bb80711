"""What the operator may do with everything that belongs to one person: hand it out, erase it."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response
from starlette import status

from gateway.admin.views import Erased
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Scrubber, Store, VaultBus
from gateway.doorkeeper import Doorkeeper


def people(store: Store, keeper: Doorkeeper, vault: VaultBus, scrubber: Scrubber) -> APIRouter:
    """The routes below /api/users. A key with a place stands for the user in it; a shared place for itself."""
    router = APIRouter(prefix="/api/users", tags=["users"])

    @router.get("/{key:path}/export", response_class=Response)
    async def export(key: str) -> Response:
        """Everything that is kept of a user, as one JSON document."""
        return Response(await store.people.export(_owner(key), clean=scrubber.scrub), media_type="application/json")

    @router.delete("/{key:path}")
    async def erase(key: str) -> Erased:
        """Delete every trace of a user, what was granted to him and his kept secrets included. What is under way
        at this moment (a queued message, a running turn) may still write; erase again when it has ended."""
        await vault.drop_all(_owner(key))
        erased = await store.people.erase(_owner(key))
        await keeper.project()
        return Erased(key=str(_owner(key)), rows=dict(erased))

    return router


def _owner(key: str) -> SessionKey:
    try:
        return SessionKey.parse(key).owner
    except BadSessionKey as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error
