"""The browser: one Chromium for a process, cookies for each conversation, a proxy as its only way out.

Whatever a page asks for (a redirect, a picture, a frame, a fetch, a websocket) Chromium asks of this proxy, by
name; the proxy resolves the name, judges the address and connects to that same address. Chromium itself resolves
nothing. A connection carries one request or one tunnel, and an end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import structlog

from agent import limits
from agent.models.requests import ToolSpec
from agent.schema import object_schema
from agent.tools.exec.processes import PROGRAM_PATH
from agent.tools.files.tools import PATH, put
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock
from gateway.public_web import PublicConnector, Unreachable
from gateway.scrub.raw_text import head
from gateway.tasks import SharedThreads, alongside, wait_at_most

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Frame, Locator, Page


_LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_END_OF_HEAD: Final = b"\r\n\r\n"
_REFUSED: Final = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_BAD: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TUNNEL: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_HOP_HEADERS: Final = re.compile(rb"\r\n(?:proxy-[^:\r\n]*|connection|keep-alive):[^\r\n]*", re.IGNORECASE)
_INTERIM: Final = re.compile(rb"HTTP/1\.1 1\d\d")
_CLOSE: Final = b"\r\nConnection: close\r\n\r\n"


class _Bad(Exception):
    """The request is none that a browser makes of a proxy."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The target of a connection. `head` goes to the server, None for a tunnel."""

    host: str
    port: int
    head: bytes | None


@contextlib.asynccontextmanager
async def forward_proxy(reach: PublicConnector) -> AsyncIterator[int]:
    """Serve a proxy as long as the block lasts, and yield its port."""
    proxy = _Proxy(reach)
    server = await asyncio.start_server(proxy.serve, _LOOPBACK, 0, limit=limits.BROWSER_HEAD_BYTES_MAX)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await proxy.end()


class _Proxy:
    def __init__(self, reach: PublicConnector) -> None:
        self._reach = reach
        self._slots = asyncio.Semaphore(limits.BROWSER_CONNECTIONS_MAX)
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser from its request to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            async with self._slots, asyncio.timeout(limits.BROWSER_CONNECTION_S):
                await self._answer(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # either end hung up, or took too long: the other one is told by the same
        except asyncio.CancelledError:
            pass  # by `end`; nobody awaits this task, and asyncio's streams take a cancelled one for a failure
        finally:
            self._serving.discard(task)
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def end(self) -> None:
        """Hang up on everybody."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = _asked(await reader.readuntil(_END_OF_HEAD))
            far_reader, far_writer = await self._reach.connect(asked.host, asked.port)
        except (_Bad, Unreachable) as error:
            writer.write(_BAD if isinstance(error, _Bad) else _REFUSED)
            await writer.drain()
            return
        try:
            if asked.head is None:
                writer.write(_TUNNEL)
            else:
                far_writer.write(asked.head)
            await _both_ways(reader, writer, far_reader, far_writer, is_tunnel=asked.head is None)
        finally:
            far_writer.close()


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
    *,
    is_tunnel: bool,
) -> None:
    """Pass bytes both ways until the server has sent everything, or more than the limit; then stop passing on what the
    browser sends as well."""
    async with alongside(_pump(reader, far_writer)):
        if not is_tunnel:
            head = await far_reader.readuntil(_END_OF_HEAD)
            while _INTERIM.match(head):  # "early hints" and their like: the answer itself follows
                head = await far_reader.readuntil(_END_OF_HEAD)
            writer.write(_without_hops(head))
        await _pump(far_reader, writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    passed = 0
    while passed < limits.BROWSER_BYTES_MAX and (chunk := await reader.read(_CHUNK_BYTES)):
        passed += len(chunk)
        writer.write(chunk)
        await writer.drain()


def _asked(head: bytes) -> _Asked:
    """Parse the request in a head: `CONNECT host:port`, or a method with an absolute http address."""
    line, separator, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = parts.port
    except (ValueError, UnicodeDecodeError) as error:
        raise _Bad from error
    if not parts.hostname:
        raise _Bad
    if method == "CONNECT":
        if port is None:
            raise _Bad
        return _Asked(parts.hostname, port, None)
    if parts.scheme != "http":
        raise _Bad
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    return _Asked(parts.hostname, port or 80, _without_hops(f"{method} {path} {version}".encode() + separator + rest))


def _without_hops(head: bytes) -> bytes:
    """Make the head say that the connection closes after its message: the next request may be for another host."""
    return _HOP_HEADERS.sub(b"", head[: -len(_END_OF_HEAD)]) + _CLOSE


# One Chromium for an agent process, with a page and cookies of its own for each conversation.
#
# It is started when it is needed first, reaches the web through `agent.tools.browser` only, sees nothing of our
# environment, and ends with the toolbox. The oldest page goes when there are too many, and any that rests for long.


_log = structlog.get_logger(__name__)

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
WINDOW: Final = (1_280, 800)
_MS: Final = 1_000
_ARGUMENTS: Final = (
    "--proxy-bypass-list=<-loopback>",  # without it this machine would be reached without the proxy
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # names are the proxy's business
    "--disable-quic",  # UDP passes no proxy
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=4",
    "--js-flags=--max-old-space-size=256",
)


@dataclass(frozen=True, slots=True)
class NoBrowser:
    """The reason why there is no browser here, as a short clause."""

    reason: str


@dataclass(slots=True)
class Visit:
    """The page of one conversation. One call at a time uses it."""

    page: Page
    context: BrowserContext
    used_s: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def find_browser(mode: Literal["auto", "unsandboxed", "off"]) -> str | NoBrowser:
    """Find the Chromium to use, or return the reason why there is none."""
    if mode == "off":
        return NoBrowser("it is switched off")
    if find_spec("playwright") is None:
        return NoBrowser("the extra `browser` is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        return NoBrowser("no Chromium is installed")
    if mode == "auto" and os.geteuid() == 0:
        return NoBrowser("Chromium's sandbox does not work as root")
    return path


class Chromium:
    """Made by `open_chromium`. Safe to use from any number of turns."""

    def __init__(self, path: str, reach: PublicConnector, clock: Clock, *, is_sandboxed: bool) -> None:
        self._path = path
        self._reach = reach
        self._clock = clock
        self._is_sandboxed = is_sandboxed
        self._stack = AsyncExitStack()
        self._browser: Browser | None = None
        self._visits: OrderedDict[SessionKey, Visit] = OrderedDict()
        self._changing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def visit(self, key: SessionKey) -> AsyncIterator[Page]:
        """Open the page of a conversation, a new one if it has none. Raises `ToolError`."""
        async with self._changing:
            await self._forget_idle()
            visit = self._visits.get(key) or await self._open(key)
            self._visits.move_to_end(key)
        async with visit.lock:
            visit.used_s = self._clock.monotonic_s()
            yield visit.page

    async def close(self) -> None:
        """End Chromium and everything around it."""
        self._visits.clear()
        self._browser = None
        await self._stack.aclose()

    async def keep_tidy(self) -> None:
        """Forget what rests for too long, until cancelled."""
        while True:
            await asyncio.sleep(limits.BROWSER_IDLE_S / 10)
            async with self._changing:
                await self._forget_idle()

    async def _open(self, key: SessionKey) -> Visit:
        browser = await self._started()
        while len(self._visits) >= limits.BROWSER_CONTEXTS_MAX:
            free = next((key for key, visit in self._visits.items() if not visit.lock.locked()), None)
            if free is None:
                raise ToolError("too many pages are in use at the moment: try again later")
            await self._forget(free)
        context = await browser.new_context(
            accept_downloads=False,
            service_workers="block",
            permissions=[],
            viewport={"width": WINDOW[0], "height": WINDOW[1]},
        )
        context.set_default_timeout(limits.BROWSER_STEP_S * _MS)
        context.set_default_navigation_timeout(limits.BROWSER_PAGE_S * _MS)
        page = await context.new_page()
        context.on("page", _close_quietly)  # a window that a page opens: links lead on in the page itself, or nowhere
        visit = self._visits[key] = Visit(page, context, self._clock.monotonic_s())
        return visit

    async def _started(self) -> Browser:
        if self._browser is not None and self._browser.is_connected():
            return self._browser
        await self.close()
        self._stack = AsyncExitStack()
        try:
            async with asyncio.timeout(limits.BROWSER_START_S):
                from playwright.async_api import async_playwright  # noqa: PLC0415 - an extra, and slow to load

                home = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trivet-browser-"))
                port = await self._stack.enter_async_context(forward_proxy(self._reach))
                driver = await self._stack.enter_async_context(async_playwright())
                browser = await driver.chromium.launch(
                    executable_path=self._path,
                    chromium_sandbox=self._is_sandboxed,
                    args=[f"--proxy-server=http://127.0.0.1:{port}", *_ARGUMENTS],
                    env={"PATH": PROGRAM_PATH, "HOME": home, "LANG": "C.UTF-8"},  # ours holds keys and tokens
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                self._stack.push_async_callback(browser.close)
                self._browser = browser
        except asyncio.CancelledError:
            await self.close()
            raise
        except Exception as error:  # whatever the driver throws, the model and the log are told
            _log.warning("browser.not_started", reason=str(error)[:500], is_sandboxed=self._is_sandboxed)
            await self.close()
            raise ToolError("Chromium does not start here" + _HINT * self._is_sandboxed) from error
        return self._browser

    async def _forget_idle(self) -> None:
        now_s = self._clock.monotonic_s()
        for key, visit in list(self._visits.items()):
            is_over = now_s - visit.used_s > limits.BROWSER_IDLE_S or visit.page.is_closed()
            if is_over and not visit.lock.locked():
                await self._forget(key)

    async def _forget(self, key: SessionKey) -> None:
        visit = self._visits.pop(key)
        with contextlib.suppress(Exception):  # the browser may be dead already
            await visit.context.close()


_HINT: Final = ": its sandbox needs user namespaces (tools.browser.mode)"


async def _close_quietly(page: Page) -> None:
    with contextlib.suppress(Exception):
        await page.close()


@contextlib.asynccontextmanager
async def open_chromium(
    path: str, reach: PublicConnector, clock: Clock, *, is_sandboxed: bool
) -> AsyncIterator[Chromium]:
    """Provide a Chromium that starts when it is first used and is closed at the end of the block."""
    chromium = Chromium(path, reach, clock, is_sandboxed=is_sandboxed)
    try:
        async with alongside(chromium.keep_tidy()):
            yield chromium
    finally:
        await chromium.close()


# browser: open a page, read it, click and type in it, take a picture of it.


NAME: Final = "browser"
CATEGORY: Final = "web"
_SPEC: Final = ToolSpec(
    NAME,
    "Use a web page as a person would. open a url; read what is on the page, with numbers for what can be clicked or "
    "filled in; click a target; type text into a target; back; screenshot into a file of the workspace. Every action "
    "shows the page as it is afterwards.",
    object_schema(
        {
            "action": {"type": "string", "enum": ["open", "read", "click", "type", "back", "screenshot"]},
            "url": {"type": "string", "maxLength": limits.WEB_URL_CHARS_MAX, "description": "For open: http or https."},
            "target": {"type": "integer", "minimum": 1, "description": "For click and type: a number on the page."},
            "text": {"type": "string", "maxLength": 4_000, "description": "For type."},
            "submit": {"type": "boolean", "description": "For type: press Enter afterwards."},
            "path": {**PATH, "description": "For screenshot: a .png in the workspace."},
        },
        "action",
    ),
)
_SCHEMES: Final = frozenset({"http", "https"})
_INTERRUPTED: Final = "interrupted by another navigation"
_PICTURE: Final = "screenshot.png"
_TITLE_CHARS_MAX: Final = 200
_LOOK: Final = """
([elementsMax, charsMax, labelMax]) => {
  const wanted = "a[href], button, input:not([type=hidden]), textarea, select, [role=button], [role=link], [onclick]";
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility !== "hidden";
  };
  document.querySelectorAll("[data-numbered]").forEach((element) => element.removeAttribute("data-numbered"));
  const elements = [...document.querySelectorAll(wanted)].filter(seen);
  const rows = elements.slice(0, elementsMax).map((element, index) => {
    element.setAttribute("data-numbered", String(index + 1));
    const kind = element.tagName.toLowerCase() === "input" ? `input ${element.type}` : element.tagName.toLowerCase();
    const secret = element.type === "password";
    const label = element.innerText || element.getAttribute("aria-label") || element.placeholder || element.name || "";
    const value = secret || !("value" in element) || kind === "button" ? "" : String(element.value);
    return [kind, label.replace(/\\s+/g, " ").trim().slice(0, labelMax), value.slice(0, labelMax)];
  });
  return [(document.body?.innerText ?? "").slice(0, charsMax), rows, elements.length];
}
"""

_Act = Callable[["Page", Mapping[str, Any]], Awaitable[None]]


def browser_tools(
    chromium: Chromium | NoBrowser, workspaces: Workspaces, threads: SharedThreads
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """Return the browser tool, or the reason why there is none."""
    if isinstance(chromium, NoBrowser):
        return (), (AbsentTool(NAME, CATEGORY, chromium.reason, Risk.NETWORK),)

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        async with chromium.visit(context.key) as page:
            try:
                if arguments["action"] == "screenshot":
                    picture = await page.screenshot(type="png", timeout=limits.BROWSER_CALL_S * 500)
                    path = arguments.get("path") or _PICTURE
                    return await threads.call(
                        context.owner, partial(put, workspaces.of(context.key), "browser", path, picture)
                    )
                await _ACTIONS[arguments["action"]](page, arguments)
                return await _shown(page)
            except ToolError:
                raise
            except Exception as error:  # the driver has errors of its own for each way in which a page can fail
                raise ToolError(_in_plain_words(error)) from error

    return (
        Tool(_SPEC, CATEGORY, Risk.NETWORK, run, timeout_s=limits.BROWSER_CALL_S, foreign=True, locks=_the_page),
    ), ()


def _the_page(_arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return ("the page",)


async def _open(page: Page, arguments: Mapping[str, Any]) -> None:
    url = _asked_action(arguments, "url")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ToolError("this is no URL") from error
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ToolError("only http and https pages can be opened")
    if parts.username is not None or parts.password is not None:
        raise ToolError("a URL with a user or a password is not opened")
    for _ in range(limits.BROWSER_TRIES_MAX):
        try:
            await page.goto(url, wait_until="domcontentloaded")
            return
        except Exception as error:
            if _INTERRUPTED not in str(error):
                raise
        await asyncio.sleep(limits.BROWSER_SETTLE_S)  # Chromium is still busy with telling why the page before failed
    raise ToolError("the page leads away again and again")


async def _read(_page: Page, _arguments: Mapping[str, Any]) -> None:
    return


async def _click(page: Page, arguments: Mapping[str, Any]) -> None:
    target = await _target(page, arguments)
    await target.evaluate("element => element.removeAttribute('target')")  # no second window: the page itself leads on
    async with _followed(page):
        await target.click()


async def _type(page: Page, arguments: Mapping[str, Any]) -> None:
    target = await _target(page, arguments)
    await target.fill(_asked_action(arguments, "text", may_be_empty=True))
    if arguments.get("submit"):
        async with _followed(page):
            await target.press("Enter")


@contextlib.asynccontextmanager
async def _followed(page: Page) -> AsyncIterator[None]:
    """Wait after the block for a navigation that it may have caused: the page changes only a moment later."""
    led_on = asyncio.Event()

    def note(_frame: Frame) -> None:
        led_on.set()

    page.on("framenavigated", note)
    try:
        yield
        await wait_at_most(led_on, limits.BROWSER_SETTLE_S)
    finally:
        page.remove_listener("framenavigated", note)
    await page.wait_for_load_state("domcontentloaded")


async def _back(page: Page, _arguments: Mapping[str, Any]) -> None:
    await page.go_back(wait_until="domcontentloaded")


_ACTIONS: Final[Mapping[str, _Act]] = {"open": _open, "read": _read, "click": _click, "type": _type, "back": _back}


async def _target(page: Page, arguments: Mapping[str, Any]) -> Locator:
    number = arguments.get("target")
    if number is None:
        raise ToolError("`target` is missing: the number of what is meant, as the page shows it")
    found = page.locator(f'[data-numbered="{int(number)}"]').first
    if not await found.count():
        raise ToolError(f"nothing on the page has the number {number}: read it again")
    return found


def _asked_action(arguments: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    value = str(arguments.get(name, "")).strip()
    if not value and not (may_be_empty and name in arguments):
        raise ToolError(f"`{name}` is missing")
    return value


async def _shown(page: Page) -> str:
    """Describe the page in text: its address, its content, and the actions it offers."""
    # One character more than is shown of anything, by which `head` knows that it was cut.
    most = [limits.BROWSER_ELEMENTS_MAX, limits.BROWSER_TEXT_CHARS_MAX + 1, limits.BROWSER_LABEL_CHARS_MAX + 1]
    text, rows, count = await page.evaluate(_LOOK, most)
    lines = [_line(number, *row) for number, row in enumerate(rows, 1)]
    more = [f"(and {count - len(rows)} more)"] if count > len(rows) else []
    place = f"{head(page.url, limits.WEB_URL_CHARS_MAX)}\n{head(await page.title(), _TITLE_CHARS_MAX)}"
    read = head(str(text).strip(), limits.BROWSER_TEXT_CHARS_MAX)
    return "\n".join([place, "", read or "(nothing to read)", "", *lines, *more]).rstrip()


def _line(number: int, kind: str, label: str, value: str) -> str:
    label, value = head(label, limits.BROWSER_LABEL_CHARS_MAX), head(value, limits.BROWSER_LABEL_CHARS_MAX)
    return f"[{number}] {kind} {label!r}" + (f" = {value!r}" if value else "")


def _in_plain_words(error: Exception) -> str:
    said = str(error)
    for sign, sentence in _SIGNS.items():
        if sign in said:
            return sentence
    return f"the page cannot be used in this way ({type(error).__name__})"


_SIGNS: Final = {
    "ERR_TUNNEL_CONNECTION_FAILED": "the host cannot be reached, or is not on the public web",
    "ERR_NAME_NOT_RESOLVED": "the host cannot be reached, or is not on the public web",
    "ERR_HTTP_RESPONSE_CODE_FAILURE": "there is no such page, or the host is not on the public web",
    "ERR_BLOCKED": "the page is not allowed",
    "ERR_CERT": "the host's certificate is not valid",
    "ERR_ABORTED": "this is a file to download: web_fetch reads it, if it is a text",
    "Download is starting": "this is a file to download: web_fetch reads it, if it is a text",
    "Timeout": "the page did not answer in time",
    "crash": "the page crashed: open it again",
    "closed": "the page is gone: open it again",
}
