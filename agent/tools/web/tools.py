"""The tools web_fetch and web_search, and the search engines: ddgs, SearXNG, Brave, Tavily."""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Final

import aiohttp

from agent import limits
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.policy import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from agent.tools.web.session import PageReader, WebSession, origin, output_of, read_body
from gateway.contracts.errors import FailureCause, ToolError
from gateway.scrub.raw_text import head, without_broken_end

# Search engines: ddgs, and the APIs of SearXNG, Brave and Tavily. None configured: there is no web_search.
#
# The address of an engine is the operator's word: it may be in the private network, and is not guarded. No redirect
# is followed, so nobody can lead the request elsewhere.


_KEYLESS: Final = "agent.tools.web.keyless"
_OK: Final = 200
_TITLE_CHARS_MAX: Final = 200
_SNIPPET_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. All of it was written by strangers."""

    title: str
    url: str
    snippet: str


class SearchEngine(ABC):
    """Finds pages."""

    @abstractmethod
    async def search(self, query: str, *, count: int) -> Sequence[Hit]:
        """Search for at most `count` hits, the best first. Raises `ToolError`."""

    async def close(self) -> None:
        """Close all connections."""
        return


class Keyless(SearchEngine):
    """Public search engines by way of `ddgs`, through an HTTP proxy where there is one. A search starts
    `program`: see `agent.tools.web.keyless`."""

    def __init__(self, proxy: str = "", program: Sequence[str] = (sys.executable, "-m", _KEYLESS)) -> None:
        self._arguments = (proxy,) if proxy else ()
        self._program = program
        self._slots = asyncio.Semaphore(limits.KEYLESS_SEARCHES_MAX)

    async def search(self, query: str, *, count: int) -> Sequence[Hit]:
        """Search for at most `count` hits, the best first. Raises `ToolError`."""
        async with self._slots:
            command = (*self._program, str(count), *self._arguments)
            try:
                written = await output_of(command, query.encode(errors="replace"), within_s=limits.WEB_TIMEOUT_S)
            except TimeoutError as error:
                raise ToolError("no search engine answered in time", FailureCause.BUSY) from error
        if written is None:
            raise ToolError("no search engine answered: they may refuse too many searches", FailureCause.BUSY)
        return _hits(json.loads(written), "content", count)


@dataclass(frozen=True, slots=True)
class _Api:
    """What tells one engine's API from another's: its own address, the headers that carry a key, the request for so
    many hits, the way to them in the answer, and what their passages are called."""

    address: str
    headers: Mapping[str, str]
    method: str
    path: str
    request: Callable[[str, int], Mapping[str, Any]]
    hits_at: tuple[str, ...] = ("results",)
    snippet: str = "content"


_APIS: Final = {
    # An instance whose `search.formats` allow json: https://docs.searxng.org/dev/search_api.html
    "searxng": _Api("", {}, "GET", "/search", lambda query, _count: {"params": {"q": query, "format": "json"}}),
    # https://api-dashboard.search.brave.com/app/documentation/web-search
    "brave": _Api(
        "https://api.search.brave.com",
        {"X-Subscription-Token": "{key}"},
        "GET",
        "/res/v1/web/search",
        lambda query, count: {"params": {"q": query, "count": str(count), "text_decorations": "false"}},
        ("web", "results"),
        "description",
    ),
    # https://docs.tavily.com/documentation/api-reference/endpoint/search
    "tavily": _Api(
        "https://api.tavily.com",
        {"Authorization": "Bearer {key}"},
        "POST",
        "/search",
        lambda query, count: {"json": {"query": query, "max_results": count}},
    ),
}


class SearchApi(SearchEngine):
    """Finds pages by the API of SearXNG, Brave or Tavily, at its own `address` unless another is given."""

    def __init__(self, name: str, *, key: str = "", address: str = "") -> None:
        self._api = _APIS[name]
        self._address = (address or self._api.address).rstrip("/")
        self._http = aiohttp.ClientSession(
            headers={"Accept": "application/json"}
            | {name: form.format(key=key) for name, form in self._api.headers.items()},
            timeout=aiohttp.ClientTimeout(total=limits.WEB_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def search(self, query: str, *, count: int) -> Sequence[Hit]:
        """Search for at most `count` hits, the best first. Raises `ToolError`, never with the engine's own words."""
        method, url, request = self._api.method, self._address + self._api.path, self._api.request(query, count)
        try:
            async with self._http.request(method, url, allow_redirects=False, **request) as answer:
                status, (body, is_cut) = answer.status, await read_body(answer)
        except TimeoutError as error:
            raise ToolError("the search engine did not answer in time", FailureCause.BUSY) from error
        except aiohttp.ClientError as error:
            raise ToolError("the search engine cannot be reached") from error
        if status != _OK:
            raise ToolError(f"the search engine answered with status {status}", _cause_of(status))
        try:
            found = json.loads(body)
        except ValueError as error:
            raise ToolError("the search engine's answer is " + ("too long" if is_cut else "no JSON")) from error
        for name in self._api.hits_at:
            found = found.get(name) if isinstance(found, dict) else None
        return _hits(found, self._api.snippet, count)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _hits(rows: object, snippet: str, count: int) -> tuple[Hit, ...]:
    """Select the usable hits of an engine's rows."""
    usable = (row for row in rows if isinstance(row, dict) and row.get("url")) if isinstance(rows, list) else ()
    return tuple(_hit(row, snippet) for row, _ in zip(usable, range(count), strict=False))


def _hit(row: Mapping[str, Any], snippet: str) -> Hit:
    return Hit(
        _plain(row.get("title"), _TITLE_CHARS_MAX), str(row["url"]), _plain(row.get(snippet), _SNIPPET_CHARS_MAX)
    )


def _plain(text: object, chars_max: int) -> str:
    return head(" ".join(unescape(str(text or "")).split()), chars_max)


def as_text(hits: Iterable[Hit]) -> str:
    """Format hits as the model reads them."""
    return "\n\n".join(
        f"{number}. {hit.title}\n{hit.url}\n{hit.snippet}".rstrip() for number, hit in enumerate(hits, 1)
    )


CATEGORY: Final = "web"
SEARCH: Final = "web_search"

_FETCH_SPEC: Final = ToolSpec(
    "web_fetch",
    "Read a public web page as Markdown, or a text file as it is.",
    object_schema({"url": text_schema(limits.WEB_URL_CHARS_MAX)}, "url"),
)
_SECRET_HEADERS: Final = {
    "type": "object",
    "description": "Request headers with a secret: names, and values with placeholders that the user's own messages "
    'brought, as in {"Authorization": "Bearer [redacted:kind#1a2b3c]"}. Only for hosts that the operator named. The '
    "user is asked.",
    "additionalProperties": {"type": "string", "maxLength": limits.SECRET_HEADER_CHARS_MAX},
    "maxProperties": limits.SECRET_HEADERS_MAX,
}
_HEADERS: Final = "secret_headers"
_SEARCH_SPEC: Final = ToolSpec(
    SEARCH,
    "Search the web. Gives titles, addresses and short passages; web_fetch reads a page.",
    object_schema(
        {"query": text_schema(400), "count": {"type": "integer", "minimum": 1, "maximum": limits.SEARCH_RESULTS_MAX}},
        "query",
    ),
)
_BAD_STATUS: Final = 400
_BUSY_STATUS: Final = frozenset({408, 429, 503, 504})
_COUNT: Final = 5


def web_tools(
    session: WebSession, engine: SearchEngine | None, *, lent: WebSession | None = None
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """Return web_fetch, and web_search if an engine is configured. With a vault web_fetch takes secrets as headers;
    calls that were given one use a session of their own, `lent`, so that no other call can reuse a connection to such a
    host."""
    fetch = _fetch(session, lent or session)
    if lent is not None:
        fetch = fetch.with_secrets(_HEADERS, _SECRET_HEADERS, lambda arguments: origin(arguments["url"]))
    if engine is None:
        return (fetch,), (AbsentTool(SEARCH, CATEGORY, "no search engine is configured", Risk.NETWORK),)
    return (fetch, _search(engine)), ()


def _fetch(session: WebSession, lent: WebSession) -> Tool:
    reader = PageReader()

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        page = await (lent if context.is_lent else session).get(arguments["url"], headers=arguments.get(_HEADERS, {}))
        text = await reader.text(page)
        text = without_broken_end(text) if page.is_cut else text
        cut = "\n[the page is longer than what was read]" if page.is_cut else ""
        told = f"{page.url}\n\n{text or '(the page is empty)'}{cut}"
        if page.status >= _BAD_STATUS:
            raise ToolError(f"status {page.status}\n{told}", _cause_of(page.status))
        return told

    return Tool(_FETCH_SPEC, CATEGORY, Risk.NETWORK, run, foreign=True)


def _search(engine: SearchEngine) -> Tool:
    async def run(_context: ToolContext, arguments: Mapping[str, Any]) -> str:
        hits = await engine.search(arguments["query"], count=arguments.get("count", _COUNT))
        return as_text(hits) or "Nothing was found."

    return Tool(_SEARCH_SPEC, CATEGORY, Risk.NETWORK, run, foreign=True)


def _cause_of(status: int) -> FailureCause:
    """Tell why an HTTP answer of that status is none."""
    return FailureCause.BUSY if status in _BUSY_STATUS else FailureCause.PREREQUISITE
