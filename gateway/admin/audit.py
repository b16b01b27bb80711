"""Who changed what: the audit of what operators did by the API."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from gateway.admin.views import moment
from gateway.contracts.ports import Scrubber
from gateway.contracts.subagents import Audited
from gateway.limits import AUDITED_SHOWN_DEFAULT, AUDITED_SHOWN_MAX
from gateway.store.subagents import SubTypeStore

_PLAIN: Final = "^[!-~]{1,200}$"


class AuditedView(BaseModel):
    """One change."""

    number: int = Field(description="Grows from line to line.")
    at: datetime
    actor: str = Field(description="`admin`: whoever held the admin token.")
    action: str = Field(description="Such as `sub-type.change` or `sub-type.reset`.")
    subject: str = Field(description="What was changed, such as `sub-type:code`.")
    before: Any = Field(description="How it read before.")
    after: Any = Field(description="How it reads since.")


def audit_routes(book: SubTypeStore, scrubber: Scrubber) -> APIRouter:
    """`GET /api/audit`."""
    router = APIRouter(prefix="/api/audit", tags=["audit"])

    @router.get("")
    async def audit(
        subject: Annotated[str | None, Query(pattern=_PLAIN)] = None,
        below: Annotated[int | None, Query(ge=1, le=2**53, description="Lines older than this number.")] = None,
        limit: Annotated[int, Query(ge=1, le=AUDITED_SHOWN_MAX)] = AUDITED_SHOWN_DEFAULT,
    ) -> list[AuditedView]:
        """Newest first; ask again `below` the last `number` for what came before. `subject` shows what was done about
        one thing, such as `sub-type:code`. Of each actor the last 2,000 lines are kept."""
        about = None if subject is None else scrubber.scrub(subject)
        return list(map(_view, await book.audit(subject=about, below=below, limit=limit)))

    return router


def _view(line: Audited) -> AuditedView:
    return AuditedView(
        number=line.number,
        at=moment(line.at_ms),
        actor=line.actor,
        action=line.action,
        subject=line.subject,
        before=_read(line.before),
        after=_read(line.after),
    )


def _read(text: str) -> Any:
    """The values that were written down; the text itself, where the scrubber took a piece out of their middle."""
    try:
        return json.loads(text)
    except ValueError:
        return text
