"""The API of the agent's profiles and of the types of its sub-agents, which an operator may change here.

A change is kept apart from the row it changes, field by field, so that a field that nobody changed follows the
configuration and the next release. Agent processes look for changes every second or two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any, Final

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from starlette import status

from gateway.config.subagents import SubTypeDescription, SubTypeLabel, SubTypePrompt, SubTypeRounds, SubTypeTools
from gateway.contracts.errors import ConfigError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.profiles import CONVERSING, PROFILE_ROWS, SubTypeRow, SubTypeRows
from gateway.contracts.subagents import UNCHANGED, Audited, SubTypeChange
from gateway.ops.admin.http import ADMIN, refusals
from gateway.ops.admin.views import ApiView
from gateway.scrub import Scrubber
from gateway.store.subagents import SubTypeStore

_FIELDS: Final = tuple(field.name for field in fields(SubTypeChange))


class ProfileView(ApiView):
    """Somebody that the agent can be in a conversation, by `/agent NAME`."""

    name: str
    about: str
    tools: list[str] = Field(description='What it may use at most, within the policy; `["*"]` is every tool.')


class SkillView(BaseModel):
    """A file of a skill, and what became of it."""

    name: str
    description: str = ""
    source: str = Field(description="`built in`, `the operator` (data_dir/workspace/skills) or `a person`.")
    person: str = Field(description="Whose it is alone; empty for a skill that everybody has.")
    file: str
    is_always_loaded: bool = Field(
        False, description="It is in every prompt, whole; the others are loaded when needed."
    )
    is_enabled: bool = Field(False, description="False: one of the operator has the same name, or there is a mistake.")
    mistake: str = Field("", description="What is wrong in the file, and in which line; it is left out then.")


class SubTypeView(ApiView):
    """A type of sub-agents, as it is in force."""

    name: str
    label: str
    description: str = Field(
        description="What tells the model that delegates when to choose it. A change is in its prompts from the next "
        "turn on that begins a second or two later."
    )
    tools: list[str] = Field(
        description='What it may use at most; `["*"]` is all that its parent may. None: it is switched off.'
    )
    rounds_max: int = Field(description="Rounds of tools; then it has to wrap up.")
    prompt: str | None = Field(description="What it is told of itself; null for what comes with Trivet.")
    changed: list[str] = Field(description="The fields that an operator has changed.")


class SubTypeOrder(BaseModel):
    """The changes of a type. A field that is left out stays as it is; null takes an operator's change of it back.

    What `GET` gave may be sent back whole: fields that are not different count as not changed."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, description="The name in the address, if it is given at all.")
    label: SubTypeLabel | None = None
    description: SubTypeDescription | None = None
    tools: SubTypeTools | None = Field(
        default=None,
        description='Names of tools, those of MCP servers included; `["*"]` is all that its parent may; none at all '
        "switches the type off, and it is neither offered nor started. Never given, "
        f"since they belong to conversations: {', '.join(CONVERSING)}.",
    )
    rounds_max: SubTypeRounds | None = None
    prompt: SubTypePrompt | None = None
    changed: list[str] | None = Field(default=None, description="Ignored: it follows from the rest.")


async def no_skills() -> str:
    """Say that there are none."""
    return ""


def agents(
    rows: SubTypeRows, book: SubTypeStore, scrubber: Scrubber, clock: Clock, skills: Callable[[], Awaitable[str]]
) -> APIRouter:
    """Build the routes below /api/v1/agents. `rows` are the types as they are configured, `skills` asks the agent's own
    program for its list, a line of JSON for each."""
    router = APIRouter(prefix="/api/v1/agents", tags=["agents"])
    catalog = _Catalog(rows, book, scrubber, clock)

    @router.get("/profiles")
    async def profiles() -> list[ProfileView]:
        """List the built-in profiles, in the order of `/agent`."""
        return list(map(ProfileView.of, PROFILE_ROWS.values()))

    @router.get("/skills", responses=refusals(503))
    async def skill_files() -> list[SkillView]:
        """List the files of skills as an agent process here finds them at this moment: the built-in ones, those of
        single people, the operator's. 503 when it does not say so in time."""
        try:
            said = await skills()
        except (ConfigError, TimeoutError) as error:
            raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, f"the agent does not list them: {error}") from None
        return list(map(SkillView.model_validate_json, said.splitlines()))

    @router.get("/sub-types")
    async def sub_types() -> list[SubTypeView]:
        """List the thirteen types of sub-agents, as they are in force."""
        changes = await book.changes()
        return [_view(row, changes.get(name, UNCHANGED)) for name, row in rows.items()]

    @router.get("/sub-types/{name}", responses=refusals(404))
    async def sub_type(name: str) -> SubTypeView:
        """Show one type of sub-agents; 404 for an unknown name."""
        row = catalog.row(name)
        return _view(row, (await book.changes()).get(name, UNCHANGED))

    @router.put("/sub-types/{name}", responses=refusals(404))
    async def put(name: str, order: SubTypeOrder) -> SubTypeView:
        """Change a type: what is left out stays, null takes a change back. It is kept, written down in the audit, and
        counts for every sub-agent that is started from a second or two later on."""
        if order.name not in (None, name):
            raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, "a type cannot be given another name")
        return await catalog.put(name, order)

    @router.delete("/sub-types/{name}", responses=refusals(404))
    async def reset(name: str) -> SubTypeView:
        """Take back all that operators changed about a type: it is as it is configured, which is answered."""
        return await catalog.reset(name)

    return router


class _Catalog:
    """The types with their changes, made one after the other: each begins with the result of the one before it."""

    def __init__(self, rows: SubTypeRows, book: SubTypeStore, scrubber: Scrubber, clock: Clock) -> None:
        self._rows = rows
        self._book = book
        self._scrubber = scrubber
        self._clock = clock
        self._turn = asyncio.Lock()

    def row(self, name: str) -> SubTypeRow:
        """Return a type as it is configured. Raises 404 for an unknown name."""
        if name not in self._rows:
            known = ", ".join(self._rows)
            raise HTTPException(
                status.HTTP_404_NOT_FOUND, f"there is no type of sub-agents {name[:80]!r}; there are {known}"
            )
        return self._rows[name]

    async def put(self, name: str, order: SubTypeOrder) -> SubTypeView:
        row = self.row(name)
        async with self._turn:
            before = (await self._book.changes()).get(name, UNCHANGED)
            return await self._keep("sub-type.change", row, before, self._changed(row, before, order))

    async def reset(self, name: str) -> SubTypeView:
        row = self.row(name)
        async with self._turn:
            before = (await self._book.changes()).get(name, UNCHANGED)
            return await self._keep("sub-type.reset", row, before, UNCHANGED)

    def _changed(self, row: SubTypeRow, before: SubTypeChange, order: SubTypeOrder) -> SubTypeChange:
        """Compute the changes of `row` once `order` is carried out."""
        wanted = {field: getattr(order if field in order.model_fields_set else before, field) for field in _FIELDS}
        clean = {field: self._cleaned(value) for field, value in wanted.items()}
        return SubTypeChange(**{field: value for field, value in clean.items() if value != getattr(row, field)})

    async def _keep(self, action: str, row: SubTypeRow, before: SubTypeChange, after: SubTypeChange) -> SubTypeView:
        """Keep the change and write it down, unless it changes nothing."""
        if after == before:
            return _view(row, after)
        audited = Audited(
            at_ms=self._clock.now_ms(),
            actor=ADMIN,
            action=action,
            subject=f"sub-type:{row.name}",
            before=self._written(row.changed(before)),
            after=self._written(row.changed(after)),
        )
        await self._book.put(row.name, after, audited=audited)
        return _view(row, after)

    def _cleaned(self, value: Any) -> Any:
        return self._scrubber.scrub(value) if isinstance(value, str) else value

    def _written(self, row: SubTypeRow) -> CleanText:
        return self._scrubber.scrub(json.dumps({field: getattr(row, field) for field in _FIELDS}, ensure_ascii=False))


def _view(row: SubTypeRow, change: SubTypeChange) -> SubTypeView:
    fields_changed = [field for field in _FIELDS if getattr(change, field) is not None]
    return SubTypeView.of(row.changed(change), changed=fields_changed)
