"""The browser tool, with a real Chromium; and the proxy that is its only way out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from agent.tools.browser import Chromium, NoBrowser, browser_tools, find_browser, forward_proxy, open_chromium
from agent.tools.files.workspace import Workspaces
from agent.tools.registry import ToolRegistry
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.public_web import PublicConnector
from tests.parts.sites import Site, site
from tests.parts.tooling import file_threads, registry, run
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")
FOUND = find_browser("unsandboxed")
NEEDS_CHROMIUM = pytest.mark.skipif(
    isinstance(FOUND, NoBrowser), reason=f"no browser here: {FOUND.reason if isinstance(FOUND, NoBrowser) else ''}"
)
SHOP = """<!doctype html><title>Shop</title><h1>Fruit &amp; more</h1>
<a href="/apples" target="_blank">Apples</a>
<form action="/found"><input name="q" placeholder="search"></form><input type="password" name="p" value="hidden one">
<script>document.cookie = "visitor=" + Math.random().toString(36).slice(2)</script>
<p id="who"></p><script>document.getElementById("who").innerText = document.cookie</script>
<button onclick="document.querySelector('h1').innerText = 'pressed'">Press</button>"""
PAGES = {
    "/": (200, {}, SHOP),
    "/apples": (200, {}, "<title>Apples</title>red and green"),
    "/found": (200, {}, "<title>Found</title>three things"),
    "/cookies": (200, {}, "<title>c</title><body><script>document.body.innerText = document.cookie</script>"),
    "/file": (200, {"Content-Type": "application/zip", "Content-Disposition": "attachment"}, "PK"),
}


class Names:
    """A resolver: each name has a list of answers, given one after the other, the last one for ever."""

    def __init__(self, **names: Sequence[str]) -> None:
        self._names = {name.replace("_", "."): list(found) for name, found in names.items()}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if host.replace(".", "").isdigit():
            return [host]
        answers = self._names.get(host, [])
        if not answers:
            raise OSError("no such name")
        return [answers.pop(0) if len(answers) > 1 else answers[0]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def canary() -> AsyncIterator[Site]:
    """A service of this machine: nothing may ever reach it."""
    async with site({"*": (200, {}, "<title>canary</title>you should not read this")}) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(canary: Site) -> AsyncIterator[Site]:
    """A site that the guard lets through, as if it stood on the public web: on another loopback address, where nobody
    else takes ports, and on the port of the canary."""
    async with site(PAGES, host="127.0.0.2", port=canary.port) as served:
        yield served


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(shop: Site) -> AsyncIterator[Chromium]:
    """One for all tests here: it takes two seconds to start."""
    assert isinstance(FOUND, str)
    names = Names(shop_test=["127.0.0.2"], rebind_test=["127.0.0.2", "127.0.0.1"], inside_test=["127.0.0.1"])
    reach = PublicConnector(exempt=[shop.place], resolve=names)
    async with open_chromium(FOUND, reach, SystemClock(), is_sandboxed=os.geteuid() != 0) as opened:
        yield opened


@pytest.fixture
def tools(chromium: Chromium, workspaces: Workspaces) -> ToolRegistry:
    offered, _ = browser_tools(chromium, workspaces, file_threads())
    return registry(*offered)


def number_of(shown: str, label: str) -> int:
    """The number in front of an element."""
    line = next(line for line in shown.splitlines() if line.startswith("[") and label in line)
    return int(line[1 : line.index("]")])


@NEEDS_CHROMIUM
async def test_a_page_is_opened_read_clicked_and_filled_in(
    tools: ToolRegistry, shop: Site, workspaces: Workspaces
) -> None:
    """As a person would; what it shows is marked as foreign, and a link leads on in the same page."""
    url = f"http://shop.test:{shop.port}"
    opened = await run(tools, "browser", action="open", url=f"{url}/")
    assert "Fruit & more" in opened.text
    assert "hidden one" not in opened.text
    assert "foreign" in opened.text.lower() or "untrusted" in opened.text.lower()
    pressed = await run(tools, "browser", action="click", target=number_of(opened.text, "Press"))
    assert "pressed" in pressed.text
    clicked = await run(tools, "browser", action="click", target=number_of(pressed.text, "Apples"))
    assert "red and green" in clicked.text
    back = await run(tools, "browser", action="back")
    typed = await run(tools, "browser", action="type", target=number_of(back.text, "search"), text="a b", submit=True)
    assert "three things" in typed.text
    assert any("q=a+b" in line for line in shop.asked)
    picture = await run(tools, "browser", action="screenshot", path="out/page.png")
    assert not picture.is_error
    assert workspaces.of(SessionKey.parse("telegram:1")).read("out/page.png").startswith(b"\x89PNG")


@NEEDS_CHROMIUM
async def test_what_cannot_be_done_is_told(tools: ToolRegistry, shop: Site) -> None:
    for url in ("file:///etc/passwd", "chrome://version", "data:text/html,x", "javascript:1", "http://a:b@shop.test/"):
        assert (await run(tools, "browser", action="open", url=url)).is_error
    assert "number 7" in (await run(tools, "browser", action="click", target=7)).text
    assert (await run(tools, "browser", action="open")).is_error
    download = await run(tools, "browser", action="open", url=f"http://shop.test:{shop.port}/file")
    assert download.is_error
    assert "download" in download.text


@NEEDS_CHROMIUM
async def test_no_page_reaches_this_machine(tools: ToolRegistry, shop: Site, canary: Site) -> None:
    """By a redirect, a picture, a fetch, a frame, a websocket, a form, a beacon, another name, or a name that points
    elsewhere the second time."""
    inside = [f"http://127.0.0.1:{canary.port}", f"http://localhost:{canary.port}", f"http://inside.test:{canary.port}"]
    rebind = f"http://rebind.test:{shop.port}"
    parts = [
        part
        for base in (*inside, f"http://0.0.0.0:{canary.port}", f"http://[::1]:{canary.port}", rebind)
        for part in (
            f'<img src="{base}/img">',
            f'<iframe src="{base}/frame"></iframe>',
            f'<link rel="stylesheet" href="{base}/style">',
            f'<script>fetch("{base}/fetch", {{mode: "no-cors"}}).catch(() => 0)</script>',
            f'<script>navigator.sendBeacon("{base}/beacon")</script>',
            f'<script>try {{ new WebSocket("{base.replace("http", "ws")}/socket") }} catch (error) {{}}</script>',
            f'<link rel="preconnect" href="{base}"><link rel="prefetch" href="{base}/prefetch">',
        )
    ]
    done = "<script>addEventListener('load', () => setTimeout(() => document.title = 'done', 700))</script>"
    shop.answers = dict(PAGES) | {
        "/evil": (200, {}, f"<title>evil</title>{''.join(parts)}{done}"),
        "/redirect": (302, {"Location": f"{inside[0]}/redirect"}, ""),
        "/rebind": (200, {}, "<title>first</title>"),
    }
    shop_url = f"http://shop.test:{shop.port}"
    assert not (await run(tools, "browser", action="open", url=f"{rebind}/rebind")).is_error, "the first answer"
    for url in (*inside, f"{shop_url}/redirect", f"{rebind}/second", "http://169.254.169.254/latest/meta-data"):
        assert (await run(tools, "browser", action="open", url=url)).is_error, url
    assert not (await run(tools, "browser", action="open", url=f"{shop_url}/evil")).is_error
    async with asyncio.timeout(PATIENCE_S):
        while "\ndone" not in (await run(tools, "browser", action="read")).text:  # noqa: ASYNC110 - pages tell nobody
            await asyncio.sleep(0.1)
    assert canary.asked == []


class Datagrams(asyncio.DatagramProtocol):
    """What came by UDP."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.heard.append(data)


@NEEDS_CHROMIUM
async def test_no_page_speaks_past_the_proxy(tools: ToolRegistry, shop: Site) -> None:
    """By UDP: calls between browsers (STUN) and HTTP/3 (WebTransport) know no proxy."""
    loop = asyncio.get_running_loop()
    transport, canary = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    script = f"""
        const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
        peer.createDataChannel("x");
        peer.createOffer().then((offer) => peer.setLocalDescription(offer));
        try {{ new WebTransport("https://127.0.0.1:{port}/").ready.catch(() => 0); }} catch (error) {{}}
        setTimeout(() => document.title = "done", 1500);"""
    shop.answers = dict(PAGES) | {"/past": (200, {}, f"<title>past</title><script>{script}</script>")}
    try:
        url = f"http://shop.test:{shop.port}/past"
        assert not (await run(tools, "browser", action="open", url=url)).is_error
        async with asyncio.timeout(PATIENCE_S):
            while "\ndone" not in (await run(tools, "browser", action="read")).text:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
    finally:
        transport.close()
    assert canary.heard == []


@NEEDS_CHROMIUM
async def test_each_conversation_has_cookies_of_its_own_and_few_have_a_page(
    tools: ToolRegistry, shop: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of one user's visit is to be seen in another's; the oldest visit is forgotten first."""
    monkeypatch.setattr("agent.limits.BROWSER_CONTEXTS_MAX", 2)
    url = f"http://shop.test:{shop.port}"
    await run(tools, "browser", key="telegram:1", action="open", url=f"{url}/")
    mine = await run(tools, "browser", key="telegram:1", action="open", url=f"{url}/cookies")
    assert "visitor=" in mine.text
    for number in (2, 3):
        other = await run(tools, "browser", key=f"telegram:{number}", action="open", url=f"{url}/cookies")
        assert "visitor=" not in other.text
    assert "about:blank" in (await run(tools, "browser", key="telegram:1", action="read")).text


@NEEDS_CHROMIUM
async def test_a_browser_that_died_is_started_again(tools: ToolRegistry, chromium: Chromium, shop: Site) -> None:
    url = f"http://shop.test:{shop.port}/apples"
    assert not (await run(tools, "browser", action="open", url=url)).is_error
    async with chromium.visit(SessionKey.parse("telegram:1")) as page:
        assert page.context.browser is not None
        await page.context.browser.close()
    assert "red and green" in (await run(tools, "browser", action="open", url=url)).text


class TestWithoutOne:
    async def test_it_is_off_and_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The extra, the program, the sandbox, the operator."""
        monkeypatch.setattr("agent.tools.browser.shutil.which", lambda name: "/usr/bin/chromium")
        monkeypatch.setattr("agent.tools.browser.os.geteuid", lambda: 0)
        reasons = [find_browser("off"), find_browser("auto")]
        monkeypatch.setattr("agent.tools.browser.shutil.which", lambda name: None)
        reasons.append(find_browser("unsandboxed"))
        monkeypatch.setattr("agent.tools.browser.find_spec", lambda name: None)
        reasons.append(find_browser("unsandboxed"))
        told = [reason.reason for reason in reasons if isinstance(reason, NoBrowser)]
        assert told == [
            "it is switched off",
            "Chromium's sandbox does not work as root",
            "no Chromium is installed",
            "the extra `browser` is not installed",
        ]

    async def test_the_model_reads_the_reason(self, workspaces: Workspaces) -> None:
        offered, absent = browser_tools(NoBrowser("no Chromium is installed"), workspaces, file_threads())
        assert (offered, absent[0].name, absent[0].reason) == ((), "browser", "no Chromium is installed")


class TestTheProxy:
    """Without a browser."""

    async def ask(self, port: int, request: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode())
        answer = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
        writer.close()
        return answer

    async def test_passes_one_request_to_the_web_and_hangs_up(self, shop: Site) -> None:
        """Otherwise the next one, for another host, would go to the first one's server."""
        async with forward_proxy(PublicConnector(exempt=[shop.place])) as port:
            line = f"GET http://127.0.0.2:{shop.port}/apples?x=1 HTTP/1.1"
            answer = await self.ask(port, f"{line}\r\nHost: a\r\nProxy-Connection: keep-alive\r\n\r\n")
        assert answer.startswith("HTTP/1.1 200")
        assert "Connection: close" in answer
        assert answer.endswith("red and green")
        assert shop.asked[-1] == "GET /apples?x=1 HTTP/1.1"

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0"])
    @pytest.mark.parametrize("request_line", ["GET http://{place}/ HTTP/1.1", "CONNECT {place} HTTP/1.1"])
    async def test_refuses_what_is_not_on_the_public_web(self, canary: Site, host: str, request_line: str) -> None:
        async with forward_proxy(PublicConnector()) as port:
            line = request_line.format(place=f"{host}:{canary.port}")
            assert (await self.ask(port, f"{line}\r\nHost: x\r\n\r\n")).startswith("HTTP/1.1 403")
        assert canary.asked == []

    async def test_connects_to_the_address_that_it_judged(self, shop: Site, canary: Site) -> None:
        """A name is resolved once for each connection, and only its open addresses count."""
        names = Names(two_test=["127.0.0.2", "127.0.0.1"])
        async with forward_proxy(PublicConnector(exempt=[shop.place], resolve=names)) as port:
            asked = f"GET http://two.test:{shop.port}/apples HTTP/1.1\r\nHost: two.test\r\n\r\n"
            assert (await self.ask(port, asked)).startswith("HTTP/1.1 200")
            assert (await self.ask(port, asked)).startswith("HTTP/1.1 403")
        assert canary.asked == []

    @pytest.mark.parametrize(
        "line",
        [
            "GET / HTTP/1.1",
            "GET https://x.test/ HTTP/1.1",
            "CONNECT x HTTP/1.1",
            "nonsense",
            "GET http://[::1 HTTP/1.1",
        ],
    )
    async def test_refuses_what_no_browser_asks(self, line: str) -> None:
        async with forward_proxy(PublicConnector()) as port:
            assert (await self.ask(port, f"{line}\r\n\r\n")).startswith("HTTP/1.1 400")

    async def test_mail_servers_are_no_web_servers(self) -> None:
        async with forward_proxy(PublicConnector(resolve=Names(mail_test=["93.184.216.34"]))) as port:
            assert (await self.ask(port, "CONNECT mail.test:25 HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 403")
