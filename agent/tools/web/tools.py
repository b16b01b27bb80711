"""web_fetch and web_search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agent.limits import (
    SEARCH_RESULTS_MAX,
    SECRET_HEADER_CHARS_MAX,
    SECRET_HEADERS_MAX,
    WEB_URL_CHARS_MAX,
)
from agent.model.client import ToolSpec
from agent.tools.permissions import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from agent.tools.web.reading import PageReader
from agent.tools.web.search import SearchEngine, as_text
from agent.tools.web.session import WebSession, origin
from gateway.contracts.errors import ToolError
from gateway.scrub.cutting import without_broken_end

CATEGORY: Final = "web"
SEARCH: Final = "web_search"

_FETCH_SPEC: Final = ToolSpec(
    "web_fetch",
    "Read a public web page as Markdown, or a text file as it is.",
    {
        "type": "object",
        "properties": {"url": {"type": "string", "minLength": 1, "maxLength": WEB_URL_CHARS_MAX}},
        "required": ["url"],
    },
)
_SECRET_HEADERS: Final = {
    "type": "object",
    "description": "Request headers with a secret: names, and values with placeholders that the user's own messages "
    'brought, as in {"Authorization": "Bearer [redacted:kind#1a2b3c]"}. Only for hosts that the operator named. The '
    "user is asked.",
    "additionalProperties": {"type": "string", "maxLength": SECRET_HEADER_CHARS_MAX},
    "maxProperties": SECRET_HEADERS_MAX,
}
_HEADERS: Final = "secret_headers"
_SEARCH_SPEC: Final = ToolSpec(
    SEARCH,
    "Search the web. Gives titles, addresses and short passages; web_fetch reads a page.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 400},
            "count": {"type": "integer", "minimum": 1, "maximum": SEARCH_RESULTS_MAX},
        },
        "required": ["query"],
    },
)
_BAD_STATUS: Final = 400
_COUNT: Final = 5


def web_tools(
    session: WebSession, engine: SearchEngine | None, *, lent: WebSession | None = None
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """web_fetch, and web_search if an engine is configured. With a vault web_fetch takes secrets as headers; calls
    that were given one have a session of their own, `lent`: no other call finds a connection to where it leads."""
    fetch = _fetch(session, session) if lent is None else _with_secrets(_fetch(session, lent))
    if engine is None:
        return (fetch,), (AbsentTool(SEARCH, CATEGORY, "no search engine is configured", Risk.NETWORK),)
    return (fetch, _search(engine)), ()


def _with_secrets(tool: Tool) -> Tool:
    schema = {**tool.spec.schema, "properties": {**tool.spec.schema["properties"], _HEADERS: _SECRET_HEADERS}}
    return replace(
        tool,
        spec=replace(tool.spec, schema=schema),
        secret_arguments=(_HEADERS,),
        secrets_go_to=lambda arguments: origin(arguments["url"]),
    )


def _fetch(session: WebSession, lent: WebSession) -> Tool:
    reader = PageReader()

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        page = await (lent if context.is_lent else session).get(arguments["url"], headers=arguments.get(_HEADERS, {}))
        text = await reader.text(page)
        text = without_broken_end(text) if page.is_cut else text
        cut = "\n[the page is longer than what was read]" if page.is_cut else ""
        told = f"{page.url}\n\n{text or '(the page is empty)'}{cut}"
        if page.status >= _BAD_STATUS:
            raise ToolError(f"status {page.status}\n{told}")
        return told

    return Tool(_FETCH_SPEC, CATEGORY, Risk.NETWORK, run, foreign=True)


def _search(engine: SearchEngine) -> Tool:
    async def run(_context: ToolContext, arguments: Mapping[str, Any]) -> str:
        hits = await engine.search(arguments["query"], count=arguments.get("count", _COUNT))
        return as_text(hits) or "Nothing was found."

    return Tool(_SEARCH_SPEC, CATEGORY, Risk.NETWORK, run, foreign=True)
