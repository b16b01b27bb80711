"""A real browser in front of what we serve, as a person would use it."""

from __future__ import annotations

import os
import shutil
from base64 import b64decode
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, async_playwright, expect

from tests.parts.platforms import Ground
from tests.parts.waiting import PATIENCE_S

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_ARGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One process draws all pages, as long as one of them is open: each new one would take half a second of CPU.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
)
DESK: ViewportSize = {"width": 1500, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 780}
DOT = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

CONTRAST = """element => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (color, over) => {
    for (const each of [over, color]) { context.fillStyle = each; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const isSeen = color => channels(color, "white").join() !== channels(color, "black").join() ? false : true;
  let behind = element;
  while (behind.parentElement && !isSeen(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const light = rgb => rgb.map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const back = getComputedStyle(behind).backgroundColor;
  const [a, b] = [light(channels(getComputedStyle(element).color, back)), light(channels(back, "white"))];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
}"""
"""Of an element's text and what is behind it, by the rule of the WCAG."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium. Without one on the machine there is nothing to test here, except in CI."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        missing = "no Chromium is installed (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=1_000 * PATIENCE_S)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=list(BROWSER_ARGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def window(browser: Browser) -> AsyncIterator[BrowserContext]:
    """What the pages of a module share. An empty page keeps the process alive that draws the others."""
    context = await browser.new_context(viewport=DESK)
    await context.new_page()
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(window: BrowserContext, ground: Ground) -> AsyncIterator[Page]:
    """The open playground; anything it writes to the console as an error fails the test, but that it was refused."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and "status of 400" not in message.text:
            complaints.append(message.text)

    page = await window.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", heard)
    await page.goto(ground.url)
    await expect(page.locator(".link")).to_have_text("live")
    yield page
    await page.close()
    await window.clear_permissions()
    assert complaints == []


async def write(page: Page, text: str) -> None:
    """The chosen person says something in the chosen place."""
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")
