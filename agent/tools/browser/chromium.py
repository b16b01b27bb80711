"""One Chromium for an agent process, with a page and cookies of its own for each conversation.

It is started when it is needed first, reaches the web through `agent.tools.browser.proxy` only, sees nothing of our
environment, and ends with the toolbox. The oldest page goes when there are too many, and any that rests for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal

import structlog

from agent.limits import BROWSER_CONTEXTS_MAX, BROWSER_IDLE_S, BROWSER_PAGE_S, BROWSER_START_S, BROWSER_STEP_S
from agent.tools.browser.proxy import forward_proxy
from agent.tools.web.reaching import Reach
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

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
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class NoBrowser:
    """Why there is none here, as a short clause."""

    reason: str


@dataclass(slots=True)
class Visit:
    """The page of one conversation. One call at a time uses it."""

    page: Page
    context: BrowserContext
    used_s: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def find_browser(mode: Literal["auto", "unsandboxed", "off"]) -> str | NoBrowser:
    """The Chromium to use, or why there is none."""
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

    def __init__(self, path: str, reach: Reach, clock: Clock, *, is_sandboxed: bool) -> None:
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
        """The page of a conversation, a new one if it has none. Raises `ToolError`."""
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
            await asyncio.sleep(BROWSER_IDLE_S / 10)
            async with self._changing:
                await self._forget_idle()

    async def _open(self, key: SessionKey) -> Visit:
        browser = await self._started()
        while len(self._visits) >= BROWSER_CONTEXTS_MAX:
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
        context.set_default_timeout(BROWSER_STEP_S * _MS)
        context.set_default_navigation_timeout(BROWSER_PAGE_S * _MS)
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
            async with asyncio.timeout(BROWSER_START_S):
                self._browser = await self._start()
        except asyncio.CancelledError:
            await self.close()
            raise
        except Exception as error:  # whatever the driver throws, the model and the log are told
            _log.warning("browser.not_started", reason=str(error)[:500], is_sandboxed=self._is_sandboxed)
            await self.close()
            raise ToolError("Chromium does not start here" + _HINT * self._is_sandboxed) from error
        return self._browser

    async def _start(self) -> Browser:
        from playwright.async_api import async_playwright  # noqa: PLC0415 - an extra, and slow to load

        home = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trivet-browser-"))
        port = await self._stack.enter_async_context(forward_proxy(self._reach))
        driver = await self._stack.enter_async_context(async_playwright())
        browser = await driver.chromium.launch(
            executable_path=self._path,
            chromium_sandbox=self._is_sandboxed,
            args=[f"--proxy-server=http://127.0.0.1:{port}", *_ARGUMENTS],
            env={"PATH": _PATH, "HOME": home, "LANG": "C.UTF-8"},  # ours holds keys and tokens
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        self._stack.push_async_callback(browser.close)
        return browser

    async def _forget_idle(self) -> None:
        now_s = self._clock.monotonic_s()
        for key, visit in list(self._visits.items()):
            is_over = now_s - visit.used_s > BROWSER_IDLE_S or visit.page.is_closed()
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
async def open_chromium(path: str, reach: Reach, clock: Clock, *, is_sandboxed: bool) -> AsyncIterator[Chromium]:
    """Ready to start when somebody asks, and closed at the end of the block."""
    chromium = Chromium(path, reach, clock, is_sandboxed=is_sandboxed)
    tidying = asyncio.create_task(chromium.keep_tidy())
    try:
        yield chromium
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])
        await chromium.close()
