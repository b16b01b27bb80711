"""`make pictures`: take the pictures of the documentation in a real browser, of a demo that runs for them."""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from PIL import Image
from playwright.async_api import Browser, Locator, Page, ViewportSize, async_playwright, expect

from gateway.ops.demo.__main__ import SECRET
from gateway.ops.demo.rig import Rig, demo_rig
from tests.docs.references import ROOT
from tests.parts.browsing import BROWSER_ARGS, BROWSERS, PHONE

FOLDER: Final = ROOT / "docs" / "pictures"
COLORS: Final = 256  # screens have few, and a palette makes a file four times smaller
SEEN_WITHIN_MS: Final = 60_000
PLAYGROUND: Final[ViewportSize] = {"width": 1440, "height": 800}
DASHBOARD: Final[ViewportSize] = {"width": 1280, "height": 720}
PLATFORMS: Final = ("telegram", "discord", "slack")
FIRST, OTHER = "Ada", "Noor"
GROUP: Final = re.compile("garden.club", re.IGNORECASE)
"""What a place is called on every emulated platform."""

PAGES: Final = {"overview": "/", "people": "/people", "queue": "/queue", "usage": "/usage", "settings": "/settings"}
TALKED_OF: Final = re.compile("three sub-agents")
LIGHT_AND_DARK: Final[Sequence[Literal["light", "dark"]]] = ("light", "dark")
SETTINGS: Final = {"TRIVET_LOG__LEVEL": "error", "TRIVET_AGENT__MODEL": "demo/scripted"}


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody writes on a platform, and a text that the answer holds."""

    platform: str
    text: str
    answer: str


CONVERSATIONS: Final = (
    Line("telegram", "remember my boat is called Teal Heron", "Teal Heron"),
    Line("telegram", "/remind every monday at 8:00 look after the boat", "/remind cancel"),
    Line("telegram", "recall boat", "Teal Heron"),
    Line("discord", "Use three sub-agents: check the engine, look at the sails, test the lights", "Demo model"),
    Line("slack", "say **Ready to sail.** Wind: 4 Bft from the *west*, rain after 16:00.", "Demo model"),
    Line("slack", "/usage", "This month"),
)


async def main() -> None:
    """Take all of them; exit where there is no browser."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit("no Chromium is installed (Debian: apt-get install chromium)")
    FOLDER.mkdir(exist_ok=True)
    expect.set_options(timeout=SEEN_WITHIN_MS)
    async with async_playwright() as playwright, demo_rig(SETTINGS) as rig:
        browser = await playwright.chromium.launch(executable_path=program, args=list(BROWSER_ARGS))
        await of_playground(browser, rig)
        await of_dashboard(browser, rig)
        await browser.close()


async def of_playground(browser: Browser, rig: Rig) -> None:
    """Play the conversations and picture them: all platforms, each alone, a secret that is redacted, and an answer that
    comes although every process was killed."""
    page = await browser.new_page(viewport=PLAYGROUND, device_scale_factor=1.5, color_scheme="light")
    await page.goto(rig.playground_url)
    await expect(page.locator(".link")).to_have_text("live")
    for line in CONVERSATIONS:
        await say(page, line)
    await expect(page.locator(".said > li[data-growing=true]")).to_have_count(0)
    await expect(page.locator(".list li li", has_text="active")).to_have_count(0)
    await page.evaluate("document.activeElement.blur()")
    await save("playground", page)
    for platform in PLATFORMS:
        await save(platform, page.locator(f"#pane-{platform}"))
    await page.locator("#pane-telegram .person").select_option(label=OTHER)
    await say(page, Line("telegram", f"say my key is {SECRET}", "my key is"))
    await save("secret", page.locator("#pane-telegram"))
    for platform in PLATFORMS:
        await talk_in_group(page, platform)
        await save(f"{platform}-group", page.locator(f"#pane-{platform}"))
    await page.locator("#pane-telegram").get_by_label("Message", exact=True).focus()
    await page.get_by_role("button", name="Break it").click()
    await page.get_by_role("button", name="Kill everything").click()
    await expect(page.locator(".verdict")).to_contain_text("Answered all the same")
    await expect(page.locator(".said > li[data-growing=true]")).to_have_count(0)
    await expect(page.locator("#pane-telegram .typing")).to_have_attribute("data-on", "false")
    await page.mouse.move(0, 0)
    await save("broken", page)
    await page.close()


async def talk_in_group(page: Page, platform: str) -> None:
    """Have one person speak to the others and another one mention the bot, which answers that one."""
    pane = page.locator(f"#pane-{platform}")
    group = await pane.locator(".place option", has_text=GROUP).first.get_attribute("value")
    assert group is not None
    await pane.locator(".person").select_option(label=OTHER)
    await pane.locator(".place").select_option(group)
    await write(pane, "Mine are still green.")
    await pane.locator(".person").select_option(label=FIRST)
    await pane.locator(".place").select_option(group)
    await pane.get_by_label("mention the bot").check()
    await say(page, Line(platform, "say Pick them green: they ripen indoors, beside an apple.", "Demo model"))
    await expect(pane.locator(".said > li[data-growing=true]")).to_have_count(0)


async def say(page: Page, line: Line) -> None:
    """Write it as a person would, and wait for the answer to be whole."""
    pane = page.locator(f"#pane-{line.platform}")
    await write(pane, line.text)
    await expect(pane.locator(".said > li[data-bot=true]").last).to_contain_text(line.answer)
    await expect(pane.locator(".typing")).to_have_attribute("data-on", "false")


async def write(pane: Locator, text: str) -> None:
    """Write it, and wait until it is shown."""
    await pane.get_by_label("Message", exact=True).fill(text)
    await pane.get_by_label("Message", exact=True).press("Enter")
    await expect(pane.locator(".said > li[data-mine=true]", has_text=text).last).to_be_visible()


async def of_dashboard(browser: Browser, rig: Rig) -> None:
    """Picture the operator's pages by day and by night, and the first one on a phone."""
    context = await browser.new_context(viewport=DASHBOARD, base_url=rig.admin_url)
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("Admin token").fill(rig.admin_token)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    for name, path in PAGES.items():
        await page.goto(path)
        await of_both(name, page)
    await page.goto("/sessions")
    await page.get_by_role("link", name=TALKED_OF).first.click()
    await of_both("conversation", page)
    await page.set_viewport_size(PHONE)
    await page.goto("/")
    await of_both("phone", page)
    await context.close()


async def of_both(name: str, page: Page) -> None:
    """Picture a page by day and by night, once nothing is asked for any more."""
    await page.wait_for_load_state("networkidle")
    for scheme in LIGHT_AND_DARK:
        await page.emulate_media(color_scheme=scheme)
        await save(f"{name}-{scheme}", page)


async def save(name: str, pictured: Page | Locator) -> None:
    """Write a picture with few colours."""
    taken = Image.open(io.BytesIO(await pictured.screenshot())).convert("RGB")
    path = FOLDER / f"{name}.png"
    taken.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    asyncio.run(main())
