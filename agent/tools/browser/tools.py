"""browser: open a page, read it, click and type in it, take a picture of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from agent.limits import (
    BROWSER_CALL_S,
    BROWSER_ELEMENTS_MAX,
    BROWSER_LABEL_CHARS_MAX,
    BROWSER_SETTLE_S,
    BROWSER_TEXT_CHARS_MAX,
    BROWSER_TRIES_MAX,
    WEB_URL_CHARS_MAX,
)
from agent.model.client import ToolSpec
from agent.running.slots import Threads
from agent.tools.browser.chromium import Chromium, NoBrowser
from agent.tools.files.reading import PATH
from agent.tools.files.workspace import Workspaces
from agent.tools.files.writing import put
from agent.tools.permissions import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.scrub.cutting import head

if TYPE_CHECKING:
    from playwright.async_api import Frame, Locator, Page

NAME: Final = "browser"
CATEGORY: Final = "web"
_SPEC: Final = ToolSpec(
    NAME,
    "Use a web page as a person would. open a url; read what is on the page, with numbers for what can be clicked or "
    "filled in; click a target; type text into a target; back; screenshot into a file of the workspace. Every action "
    "shows the page as it is afterwards.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["open", "read", "click", "type", "back", "screenshot"]},
            "url": {"type": "string", "maxLength": WEB_URL_CHARS_MAX, "description": "For open: http or https."},
            "target": {"type": "integer", "minimum": 1, "description": "For click and type: a number on the page."},
            "text": {"type": "string", "maxLength": 4_000, "description": "For type."},
            "submit": {"type": "boolean", "description": "For type: press Enter afterwards."},
            "path": {**PATH, "description": "For screenshot: a .png in the workspace."},
        },
        "required": ["action"],
    },
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
    chromium: Chromium | NoBrowser, workspaces: Workspaces, threads: Threads
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """The tool, or why there is none."""
    if isinstance(chromium, NoBrowser):
        return (), (AbsentTool(NAME, CATEGORY, chromium.reason, Risk.NETWORK),)

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        async with chromium.visit(context.key) as page:
            try:
                if arguments["action"] == "screenshot":
                    picture = await page.screenshot(type="png", timeout=BROWSER_CALL_S * 500)
                    path = arguments.get("path") or _PICTURE
                    return await threads.run(
                        context.owner, partial(put, workspaces.of(context.key), "browser", path, picture)
                    )
                await _ACTIONS[arguments["action"]](page, arguments)
                return await _shown(page)
            except ToolError:
                raise
            except Exception as error:  # the driver has errors of its own for each way in which a page can fail
                raise ToolError(_in_plain_words(error)) from error

    return (Tool(_SPEC, CATEGORY, Risk.NETWORK, run, timeout_s=BROWSER_CALL_S, foreign=True, locks=_the_page),), ()


def _the_page(_arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return ("the page",)


async def _open(page: Page, arguments: Mapping[str, Any]) -> None:
    url = _asked(arguments, "url")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ToolError("this is no URL") from error
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ToolError("only http and https pages can be opened")
    if parts.username is not None or parts.password is not None:
        raise ToolError("a URL with a user or a password is not opened")
    for _ in range(BROWSER_TRIES_MAX):
        try:
            await page.goto(url, wait_until="domcontentloaded")
            return
        except Exception as error:
            if _INTERRUPTED not in str(error):
                raise
        await asyncio.sleep(BROWSER_SETTLE_S)  # Chromium is still busy with telling why the page before failed
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
    await target.fill(_asked(arguments, "text", may_be_empty=True))
    if arguments.get("submit"):
        async with _followed(page):
            await target.press("Enter")


@contextlib.asynccontextmanager
async def _followed(page: Page) -> AsyncIterator[None]:
    """What is done in the block may lead to another page, a moment later: then that one is waited for."""
    led_on = asyncio.Event()

    def note(_frame: Frame) -> None:
        led_on.set()

    page.on("framenavigated", note)
    try:
        yield
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BROWSER_SETTLE_S):
                await led_on.wait()
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


def _asked(arguments: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    value = str(arguments.get(name, "")).strip()
    if not value and not (may_be_empty and name in arguments):
        raise ToolError(f"`{name}` is missing")
    return value


async def _shown(page: Page) -> str:
    """The page in words: where we are, what stands there, what can be done."""
    # One character more than is shown of anything, by which `head` knows that it was cut.
    limits = [BROWSER_ELEMENTS_MAX, BROWSER_TEXT_CHARS_MAX + 1, BROWSER_LABEL_CHARS_MAX + 1]
    text, rows, count = await page.evaluate(_LOOK, limits)
    lines = [_line(number, *row) for number, row in enumerate(rows, 1)]
    more = [f"(and {count - len(rows)} more)"] if count > len(rows) else []
    place = f"{head(page.url, WEB_URL_CHARS_MAX)}\n{head(await page.title(), _TITLE_CHARS_MAX)}"
    read = head(str(text).strip(), BROWSER_TEXT_CHARS_MAX)
    return "\n".join([place, "", read or "(nothing to read)", "", *lines, *more]).rstrip()


def _line(number: int, kind: str, label: str, value: str) -> str:
    label, value = head(label, BROWSER_LABEL_CHARS_MAX), head(value, BROWSER_LABEL_CHARS_MAX)
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
