"""web_fetch and web_search against a server on loopback, which only the tests let through."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from agent.limits import TOOL_RESULT_CHARS_MAX, WEB_BYTES_MAX
from agent.tools.registry import ToolRegistry
from agent.tools.web.session import PageReader, WebPage, WebSession
from agent.tools.web.tools import SearchApi, SearchEngine, web_tools
from gateway.contracts.errors import ToolError
from tests.parts.tooling import context, registry, run

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """A small web server; `heard` are the paths that were asked for."""

    port: int = 0
    answers: dict[str, Handler] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    requests: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def says(
        self,
        path: str,
        text: str | bytes,
        media_type: str = "text/html",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        body = text.encode() if isinstance(text, str) else text

        async def answer(_request: web.BaseRequest) -> web.Response:
            return web.Response(body=body, content_type=media_type, status=status, headers=headers)

        self.answers[path] = answer

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.heard.append(request.path)
        self.requests.append(request)
        self.bodies.append(await request.json() if request.method == "POST" else None)
        return await self.answers[request.path](request)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    runner = web.ServerRunner(web.Server(found.handle))
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    found.port = runner.addresses[0][1]
    yield found
    await runner.cleanup()


@pytest.fixture
async def guarded() -> AsyncIterator[WebSession]:
    """As in the product."""
    async with WebSession() as session:
        yield session


@pytest.fixture
async def session(site: Site) -> AsyncIterator[WebSession]:
    """One that lets the site through, and nothing else."""
    async with WebSession(exempt=[("127.0.0.1", site.port)]) as opened:
        yield opened


@pytest.fixture
def tools(session: WebSession) -> ToolRegistry:
    offered, absent = web_tools(session, None)
    return registry(*offered, absent=absent)


async def test_a_page_comes_as_markdown_in_a_frame(site: Site, tools: ToolRegistry) -> None:
    site.says(
        "/", "<html><head><title>News</title><style>x</style></head><body><nav>menu</nav><h2>Today</h2>"
        "<p>It <b>rains</b>, see <a href='/w'>more</a>.</p><script>evil()</script></body></html>"
    )  # fmt: skip
    result = await run(tools, "web_fetch", url=site.url())
    assert not result.is_error
    assert result.text.startswith("<foreign mark=")
    assert "# News\n\n## Today\n\nIt **rains**, see [more](/w)." in result.text
    assert "evil" not in result.text
    assert "menu" not in result.text


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
     "[::ffff:7f00:1]", "169.254.169.254", "[fe80::1]", "10.0.0.1", "[64:ff9b::7f00:1]"],
)  # fmt: skip
async def test_no_spelling_of_a_private_host_is_fetched(site: Site, guarded: WebSession, host: str) -> None:
    site.says("/", "secret")
    with pytest.raises(ToolError, match=r"not on the public web|this is no URL"):
        await guarded.get(f"http://{host}:{site.port}/")
    assert site.heard == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://example.com/", "gopher://x/", "http://", "//x", "javascript:1", "x", "",
     "http://user:pass@example.com/", "http://127.0.0.1:99999999/", "http://[::1/", "http://a b/", "http://\0/"],
)  # fmt: skip
async def test_what_is_no_web_address_is_refused(guarded: WebSession, url: str) -> None:
    with pytest.raises(ToolError):
        await guarded.get(url)


async def test_a_redirect_into_the_private_network_is_not_followed(site: Site, session: WebSession) -> None:
    """The second hop is judged as the first was."""
    other = Site()
    runner = web.ServerRunner(web.Server(other.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    other.says("/", "secret")
    try:
        for target in (f"http://127.0.0.1:{port}/", f"//localhost:{port}/", f"http://[::ffff:127.0.0.1]:{port}/"):
            site.says("/", "", status=302, headers={"Location": target})
            with pytest.raises(ToolError, match="not on the public web"):
                await session.get(site.url())
    finally:
        await runner.cleanup()
    assert other.heard == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://u:p@x/", "http://[/"])
async def test_a_redirect_to_anything_else_is_refused(site: Site, session: WebSession, target: str) -> None:
    site.says("/", "", status=302, headers={"Location": target})
    with pytest.raises(ToolError):
        await session.get(site.url())


async def test_honest_redirects_are_followed_and_endless_ones_are_not(site: Site, session: WebSession) -> None:
    site.says("/", "", status=301, headers={"Location": "/there"})
    site.says("/there", "here", "text/plain")
    page = await session.get(site.url())
    assert (page.url, page.body) == (site.url("/there"), b"here")
    site.says("/loop", "", status=302, headers={"Location": "/loop"})
    with pytest.raises(ToolError, match="more than 5 redirects"):
        await session.get(site.url("/loop"))


@pytest.fixture
def rebinding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name server that gives a public address first and a private one ever after."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if host != "rebinding.test":
            return real(host, port, *rest, **named)
        asked.append(host)
        address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


async def test_a_name_that_changes_its_address_gains_nothing(
    site: Site, guarded: WebSession, rebinding: list[str]
) -> None:
    """Whatever it points to when the socket is made is what is judged."""
    site.says("/", "secret")
    for _ in range(3):
        with pytest.raises(ToolError, match="not on the public web"):
            await guarded.get(f"http://rebinding.test:{site.port}/")
    assert len(rebinding) >= 2
    assert site.heard == []


async def test_mail_servers_are_not_spoken_to(guarded: WebSession) -> None:
    """Port 25 of a public address, which is never connected to."""
    with pytest.raises(ToolError, match="port 25 is not on the public web"):
        await guarded.get("http://8.8.8.8:25/")


async def test_a_body_is_read_no_further_than_its_limit(site: Site, session: WebSession) -> None:
    """Nor is a bomb unpacked."""
    site.says("/", b"x" * (WEB_BYTES_MAX + 100_000), "text/plain")
    bomb = gzip.compress(b"\0" * 30_000_000)
    site.says("/bomb", bomb, "text/plain", headers={"Content-Encoding": "gzip"})
    for path in ("/", "/bomb"):
        page = await session.get(site.url(path))
        assert page.is_cut
        assert len(page.body) == WEB_BYTES_MAX


async def test_a_page_that_never_ends_is_given_up(
    site: Site, session: WebSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.limits.WEB_TIMEOUT_S", 0.2)
    leave = asyncio.Event()

    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"x")
        await leave.wait()
        return answer

    site.answers["/"] = drip
    with pytest.raises(ToolError, match="did not come within"):
        await session.get(site.url())
    leave.set()


async def test_a_page_that_is_no_text_is_an_error(site: Site, tools: ToolRegistry) -> None:
    site.says("/", b"\x89PNG", "image/png")
    result = await run(tools, "web_fetch", url=site.url())
    assert result.is_error
    assert "no text but image/png" in result.text


async def test_an_error_page_is_an_error_with_its_text(site: Site, tools: ToolRegistry) -> None:
    site.says("/", "<p>No such page</p>", status=404)
    result = await run(tools, "web_fetch", url=site.url())
    assert result.is_error
    assert "status 404" in result.text
    assert "No such page" in result.text


async def test_no_cookie_is_kept_from_one_user_to_the_next(site: Site, session: WebSession) -> None:
    site.says("/", "hello", headers={"Set-Cookie": "who=first"})
    await session.get(site.url())
    await session.get(site.url())
    assert "Cookie" not in site.requests[-1].headers


async def test_a_secret_on_a_page_does_not_reach_the_model(site: Site, tools: ToolRegistry) -> None:
    site.says("/", "token ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", "text/plain")
    result = await run(tools, "web_fetch", url=site.url())
    assert "[redacted:github#" in result.text


@pytest.mark.parametrize(
    ("media_type", "charset", "body", "text"),
    [
        ("text/html", "", '<meta charset="windows-1251"><p>привет</p>'.encode("cp1251"), "привет"),
        ("text/html", "utf-8", '<meta charset="windows-1251"><p>привет</p>'.encode(), "привет"),
        ("text/plain", "no-such-charset", "grüß".encode(), "grüß"),
        ("text/plain", "base64", b"grue", "grue"),
        ("application/ld+json", "", b"{}", "{}"),
        ("text/html", "", b"<div>" * 5_000 + b"deep", "deep"),
        ("text/html", "", b"", ""),
    ],
)
async def test_a_page_may_be_of_any_writing_and_depth(media_type: str, charset: str, body: bytes, text: str) -> None:
    assert await PageReader().text(WebPage("http://x/", 200, media_type, charset, body, is_cut=False)) == text


async def test_a_page_that_keeps_the_parser_busy_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser takes quadratic time for these 600 kB; its process is killed."""
    monkeypatch.setattr("agent.limits.WEB_CONVERSION_S", 0.5)
    page = WebPage("http://x/", 200, "text/html", "", b"<a " * 200_000, is_cut=False)
    with pytest.raises(ToolError, match="cannot be read"):
        await PageReader().text(page)


ROWS = [
    {"title": "First &amp; best", "url": "https://a.example/", "content": "one\n two", "description": "one\n two"},
    {"title": "No address"},
    {"title": "Second", "url": "https://b.example/", "content": "x y " * 500, "description": "x y " * 500},
    {"title": "Third", "url": "https://c.example/"},
]


@pytest.mark.parametrize("kind", ["searxng", "brave", "tavily"])
async def test_each_engine_is_asked_in_its_own_way_and_answers_in_ours(site: Site, kind: str) -> None:
    def json_answer(content: Any) -> Handler:
        async def answer(_request: web.BaseRequest) -> web.Response:
            return web.json_response(content)

        return answer

    site.answers["/search"] = json_answer({"results": ROWS})
    site.answers["/res/v1/web/search"] = json_answer({"web": {"results": ROWS}})
    engines: dict[str, SearchEngine] = {
        "searxng": SearchApi("searxng", address=site.url("/")),
        "brave": SearchApi("brave", key="key-of-brave", address=site.url("")),
        "tavily": SearchApi("tavily", key="key-of-tavily", address=site.url("")),
    }
    engine = engines.pop(kind)
    for unused in engines.values():
        await unused.close()
    async with WebSession() as session:
        offered, absent = web_tools(session, engine)
        assert not absent
        result = await run(registry(*offered), "web_search", query="what is new?", count=2)
    await engine.close()
    assert "1. First & best\nhttps://a.example/\none two\n\n2. Second\nhttps://b.example/\nx y x" in result.text
    assert "Third" not in result.text
    assert result.text.startswith("<foreign mark=")
    assert len(result.text) < TOOL_RESULT_CHARS_MAX
    request, body = site.requests[0], site.bodies[0]
    asked = {
        "searxng": (request.query.get("q"), request.query.get("format")),
        "brave": (request.query.get("q"), request.headers.get("X-Subscription-Token")),
        "tavily": ((body or {}).get("query"), request.headers.get("Authorization")),
    }[kind]
    expected = {"searxng": "json", "brave": "key-of-brave", "tavily": "Bearer key-of-tavily"}[kind]
    assert asked == ("what is new?", expected)


@pytest.mark.parametrize(("body", "status"), [(b"oops", 200), (b"{}", 500), (b"[]", 302)])
async def test_an_engine_that_answers_nonsense_is_an_error(site: Site, body: bytes, status: int) -> None:
    """A redirect, too: it is not followed."""
    site.says("/search", body, "application/json", status, {"Location": "/elsewhere"})
    engine = SearchApi("searxng", address=site.url())
    with pytest.raises(ToolError, match="the search engine"):
        await engine.search("x", count=3)
    await engine.close()
    assert site.heard == ["/search"]


@pytest.mark.parametrize("body", [b'{"results": 5}', b"[]", b"{}", b'{"results": [5, {}, {"url": null}]}'])
async def test_an_engine_that_answers_nothing_of_use_finds_nothing(site: Site, body: bytes) -> None:
    site.says("/search", body, "application/json")
    engine = SearchApi("searxng", address=site.url())
    assert await engine.search("x", count=3) == ()
    await engine.close()


async def test_without_an_engine_web_search_is_off_and_says_so(tools: ToolRegistry) -> None:
    assert tools.overview(context())["web"] == ("web_fetch", "web_search (off: no search engine is configured)")
    assert (await run(tools, "web_search", query="x")).is_error
