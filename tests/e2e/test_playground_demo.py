"""The playground of a whole running demo, in a real browser: what breaks is answered all the same."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from gateway.config import SCRIPTED_MODEL
from gateway.ops.demo.__main__ import TRIES
from gateway.ops.demo.rig import Rig, demo_rig
from tests.e2e.test_playground import FLAWS
from tests.parts.browsing import CONTRAST, DESK, browser, window

__all__ = ["browser", "window"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig() -> AsyncIterator[Rig]:
    """One demo for all tests of this module."""
    async with demo_rig({"TRIVET_LOG__LEVEL": "error", "TRIVET_AGENT__MODEL": SCRIPTED_MODEL}, tries=TRIES) as rig:
        yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def page(window: BrowserContext, rig: Rig) -> AsyncIterator[Page]:
    page = await window.new_page()
    await page.goto(rig.playground_url)
    await expect(page.locator(".link")).to_have_text("live")
    yield page
    await page.close()


def pane(page: Page, platform: str) -> Locator:
    return page.locator(f"#pane-{platform}")


async def be(page: Page, platform: str, name: str) -> Locator:
    """The pane of a platform, with this person in front of it."""
    chosen = pane(page, platform)
    await chosen.get_by_label("Person to write as").select_option(label=name)
    return chosen


async def say(chosen: Locator, text: str) -> None:
    await chosen.get_by_label("Message", exact=True).fill(text)
    await chosen.get_by_label("Message", exact=True).press("Enter")


@pytest.mark.parametrize(
    ("label", "platform", "happened"),
    [
        ("Kill everything", "telegram", ["gateway.ops.supervisor", "valkey-server", "channels", "agent"]),
        pytest.param("Kill the agent", "slack", ["agent"], marks=pytest.mark.long),
        pytest.param("Pull the bus's cable", "discord", ["is pulled", "is back"], marks=pytest.mark.long),
        pytest.param("Pull the model's cable", "telegram", ["is pulled", "is back"], marks=pytest.mark.long),
    ],
)
async def test_what_is_broken_while_it_answers_is_answered_once(
    page: Page, label: str, platform: str, happened: list[str]
) -> None:
    """Processes end by SIGKILL, and the trace shows where; the answer is there once."""
    await pane(page, platform).get_by_label("Message", exact=True).focus()
    answers = pane(page, platform).locator(".said > li[data-bot=true]", has_text="You broke it")
    before = await answers.count()
    await page.get_by_role("button", name="Break it").click()
    await page.get_by_role("button", name=label).click()
    await expect(page.locator(".verdict")).to_contain_text("Answered all the same, once")
    broken = page.locator(".hops li[data-broken=true]")
    for what in happened:
        await expect(broken.filter(has_text=what).first).to_be_visible()
    await expect(page.locator(".hops li b").last).to_have_text("receipt")
    await expect(answers).to_have_count(before + 1)


async def test_a_stranger_is_let_in_by_an_admin(page: Page) -> None:
    """The stranger gets a code; the admin is told, with buttons; then the stranger is answered."""
    ada = await be(page, "discord", "Ada")
    await say(ada, "say I am here.")
    await expect(ada.locator(".said > li[data-bot=true]").last).to_contain_text("I am here.")
    sam = await be(page, "discord", "Sam")
    await expect(sam.get_by_label("What this person is to the bot")).to_have_value("stranger")
    await say(sam, "say let me in")
    await expect(sam.locator(".said > li[data-bot=true]").last).to_be_visible()
    ada = await be(page, "discord", "Ada")
    await ada.locator(".said > li .buttons button").first.click()
    sam = await be(page, "discord", "Sam")
    await expect(sam.get_by_label("What this person is to the bot")).to_have_value("member")
    await say(sam, "say thank you")
    await expect(sam.locator(".said > li[data-bot=true]").last).to_contain_text("thank you")


@pytest.mark.long
async def test_a_guest_reaches_the_limit_of_guests(page: Page) -> None:
    gus = await be(page, "slack", "Gus")
    for number in range(1, 4):
        await say(gus, f"say {number}.")
        await expect(gus.locator(".said > li[data-bot=true]").last).to_contain_text(f"{number}.")
    await say(gus, "say 4.")
    await expect(gus.locator(".said > li[data-bot=true]")).to_have_count(4)
    await expect(gus.locator(".said > li[data-bot=true]").last).not_to_contain_text("Demo model")


@pytest.mark.long
@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_a_typed_name_calls_the_bot_in_a_group(page: Page, platform: str) -> None:
    noor = await be(page, platform, "Noor")
    await noor.get_by_label("Place to write in").select_option(index=1)
    area = noor.get_by_label("Message", exact=True)
    await area.focus()
    await page.keyboard.type("@tri")
    await page.keyboard.press("Enter")
    await page.keyboard.type("say Hello, everybody.")
    await page.keyboard.press("Enter")
    await expect(noor.locator(".said > li", has_text="Hello, everybody.").first).to_be_visible()
    session = page.locator(".list > li", has_text=f"Noor · {platform}:").filter(has_text="Hello")
    await expect(session.first).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("platform", ["discord", "slack"])
async def test_a_growing_answer_is_stopped_by_the_button_below_it(page: Page, platform: str) -> None:
    noor = await be(page, platform, "Noor")
    await say(noor, "slow 60 long 3000")
    await noor.locator(".said > li").get_by_role("button", name="Stop").click()
    await expect(noor.locator(".said > li[data-bot=true]").last).to_contain_text("Stopped.")
    await expect(noor.locator(".said > li[data-bot=true]")).to_have_count(1)


@pytest.mark.parametrize(
    "form",
    [
        "An assignment",
        *(
            pytest.param(form, marks=pytest.mark.long)
            for form in (
                *("A bare token", "GitHub", "AWS, two parts", "In a sentence", "A curl header", "A bot's token"),
                *("A URL with a password", "JSON", "A JSON web token", "A private key"),
            )
        ),
    ],
)
async def test_of_a_fake_key_the_model_sees_a_placeholder(page: Page, form: str) -> None:
    await pane(page, "telegram").get_by_label("Message", exact=True).focus()
    await page.get_by_role("button", name="Paste a fake key").first.click()
    await page.get_by_role("button", name=form, exact=True).click()
    pasted = await pane(page, "telegram").get_by_label("Message", exact=True).input_value()
    await page.keyboard.press("Enter")
    wrote, saw = page.locator(".sides section").nth(0), page.locator(".sides section").nth(1)
    await expect(wrote.locator("p")).to_have_text(pasted)
    await expect(saw.locator("mark").first).to_contain_text("[redacted:")
    for piece in await wrote.locator("mark").all_text_contents():
        assert piece not in (await saw.text_content() or "")


@pytest.mark.long  # two of them start sub-agents
async def test_every_suggestion_shows_what_it_promises(page: Page) -> None:
    """By the press that writes it down; what a tool wants to do is approved."""
    shown = {
        "What it can show": "what works around a model",
        "Memory": "Teal Heron",
        "Reminders": "I shall remind you",
        "Files": "notes.md",
        "Files, sent": "notes.md",
        "Approvals": "UTC",
        "Groups": "Hello, everybody.",
        "Sub-agents": "The sub-agents answered",
        "A debate": "cats",
    }
    written = {each["topic"]: each["text"] for each in TRIES}
    assert shown.keys() == written.keys()
    chosen = await be(page, "discord", "Ada")
    for topic, text in shown.items():
        answers = chosen.locator(".said > li[data-bot=true]")
        await chosen.locator(".tries").evaluate("each => each.open = true")
        await chosen.locator(".tries button", has=page.get_by_text(topic, exact=True)).click()
        await expect(chosen.get_by_label("Message", exact=True)).to_have_value(written[topic])
        await chosen.get_by_label("Message", exact=True).press("Enter")
        if topic in {"Files", "Approvals"}:
            await answers.get_by_role("button", name="Approve", exact=True).click()
        await expect(answers.filter(has_text="Demo model" if topic != "Reminders" else text).last).to_contain_text(text)


@pytest_asyncio.fixture(loop_scope="module")
async def demo(tmp_path: Path) -> AsyncIterator[asyncio.StreamReader]:
    """What a demo of its own writes, as `make demo` runs it."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = (sys.executable, "-m", "gateway", "demo")
    process = await asyncio.create_subprocess_exec(*command, env=environ, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    yield process.stdout
    process.terminate()
    assert await process.wait() == 0


@pytest.mark.long  # two starts of a demo
async def test_everything_begins_anew_at_the_same_address(browser: Browser, demo: asyncio.StreamReader) -> None:
    """The page comes back by itself, and nothing of what was said is left."""
    url = (await demo.readline()).decode().removeprefix("Playground: ").strip()
    page = await browser.new_page(viewport=DESK)
    await page.goto(url)
    await expect(page.locator(".link")).to_have_text("live")
    await say(pane(page, "slack"), "say hello")
    await expect(pane(page, "slack").locator(".said > li")).to_have_count(2)
    await page.get_by_role("button", name="Reset").click()
    await page.get_by_role("button", name="Forget everything").click()
    while (line := await demo.readline()) and not line.startswith(b"Playground: "):
        pass
    assert line.decode().strip() == f"Playground: {url}"
    await expect(pane(page, "slack").locator(".said > li")).to_have_count(0)
    await expect(page.locator(".link")).to_have_text("live")
    await say(pane(page, "slack"), "say hello again")
    await expect(pane(page, "slack").locator(".said > li").last).to_contain_text("hello again")
    await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_of_any_platform_is_faint_or_without_a_name(page: Page, scheme: Literal["light", "dark"]) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.get_by_role("button", name="Break it").click()
    assert await page.evaluate(FLAWS.replace("CONTRAST", CONTRAST)) == []
