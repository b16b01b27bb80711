"""Where long results wait to be read on: the model gets a handle, `read_more` gives the rest, page by page.

Handles are bound to the session key that made the result: to anybody else they do not exist. The shelf is in
memory; after a restart a handle is unknown, and the model calls the tool again. What is kept elsewhere (a sub-agent's
answer, in SQL) is read in the same way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.limits import FRAME_CHARS, HANDLE_CHARS, SHELF_CHARS_MAX, SHELF_RESULTS_MAX, TOOL_PAGE_CHARS
from agent.model.client import ToolSpec
from agent.tools.framing import framed
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from agent.tools.truncation import grapheme_start
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock

READ_MORE: Final = ToolSpec(
    "read_more",
    "Read on in a result that was cut, by the handle that stands in it. Gives one page from `offset` on.",
    {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "maxLength": 40},
            "offset": {"type": "integer", "minimum": 0, "description": "Characters to skip."},
        },
        "required": ["handle"],
    },
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A long result: whose it is, and whether strangers wrote it."""

    key: SessionKey
    text: CleanText
    foreign: bool


KeptElsewhere = Callable[[str], Awaitable[Kept | None]]
"""Looks for a handle that is not on the shelf."""


class Shelf:
    """Keeps the newest long results of an agent process, the oldest go first."""

    def __init__(self, clock: Clock, elsewhere: KeptElsewhere | None = None) -> None:
        self._clock = clock
        self._elsewhere = elsewhere
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._chars = 0

    def keep(self, key: SessionKey, text: CleanText, *, foreign: bool) -> str:
        """Put a clean result on the shelf; returns its handle."""
        handle = self._clock.code(HANDLE_CHARS)
        self._drop(handle)
        self._kept[handle] = Kept(key, text, foreign)
        self._chars += len(text)
        while len(self._kept) > SHELF_RESULTS_MAX or self._chars > SHELF_CHARS_MAX:
            self._drop(next(iter(self._kept)))
        return handle

    async def page(self, key: SessionKey, handle: str, offset: int) -> str:
        """One page with a first line that says where it is. Raises `ToolError` for a handle of nobody's or
        of somebody else's; the two cannot be told apart."""
        kept = await self._found(handle)
        if kept is None or kept.key != key:
            raise ToolError("this handle is unknown or has expired: call the tool again")
        if offset >= len(kept.text):
            raise ToolError(f"the result ends at {len(kept.text)}")
        end = grapheme_start(kept.text, offset + TOOL_PAGE_CHARS)
        end = end if end > offset else offset + TOOL_PAGE_CHARS
        rest = f"continue with offset {end}" if end < len(kept.text) else "the end"
        page = kept.text[offset:end]
        shown = framed(page, self._clock.code(FRAME_CHARS)) if kept.foreign else page
        return f"[characters {offset} to {end} of {len(kept.text)}; {rest}]\n{shown}"

    def tool(self) -> Tool:
        """`read_more` on this shelf."""

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            context.reading.is_foreign = True  # most of what is long comes from others
            return await self.page(context.key, arguments["handle"].strip(), arguments.get("offset", 0))

        return Tool(READ_MORE, "results", Risk.READ, run)

    async def _found(self, handle: str) -> Kept | None:
        if handle in self._kept:
            self._kept.move_to_end(handle)
            return self._kept[handle]
        return await self._elsewhere(handle) if self._elsewhere else None

    def _drop(self, handle: str) -> None:
        dropped = self._kept.pop(handle, None)
        self._chars -= len(dropped.text) if dropped else 0
