"""The playground with SmolLM2 instead of the demo model: what a person sees there when a real one calls the tools.

The person names the tool, because so small a model does not choose well. What it remembers, and of what and when it
reminds, are its own words, within the bounds of a grammar.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.llm.conftest import llama
from tests.llm.test_small_instruct import MODEL
from tests.llm.tool_calls import calling_tools
from tests.parts.browsing import browser
from tests.parts.providers.script import Body

__all__ = ["browser"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800), pytest.mark.asyncio(loop_scope="module")]
WINDOW: Final = 8_192
WITHIN_MS: Final = 600_000
FIELDS: Final[Mapping[str, Body]] = {
    "action": {"const": "create"},
    "kind": {"const": "reminder"},
    "when": {"enum": ["1 minute", "in 2 minutes"]},
    "text": {"type": "string", "minLength": 8, "maxLength": 40},
}
"""Left to itself it takes the name of one field for the value of the other."""
REMINDER: Final = "Use `schedule` with the action create, when “in 1 minute”, and the text “water the plants”."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def heard() -> list[Body]:
    """What the model was asked."""
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def playground(tmp_path_factory: pytest.TempPathFactory, heard: list[Body]) -> AsyncIterator[str]:
    """The address of a demo whose agent asks SmolLM2."""
    home = tmp_path_factory.mktemp("home")
    with llama(WINDOW, model="smollm2") as server:
        async with calling_tools(server, fields=FIELDS, heard=heard) as address:
            environ = {
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TMPDIR": str(home),
                "TRIVET_AGENT__MODEL": MODEL,
                "TRIVET_AGENT__API_BASE": f"{address}/v1",
                "TRIVET_AGENT__API_KEY": "none",
                "TRIVET_AGENT__CONTEXT_WINDOW": str(WINDOW),
            }
            demo = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "demo"), env=environ, cwd=home, stdout=PIPE
            )
            assert demo.stdout is not None
            first = (await demo.stdout.readline()).decode()
            found = re.search(r"http://\S+", first)
            assert found, first
            yield found[0]
            demo.terminate()
            await demo.wait()


async def test_a_fact_comes_back_after_new_and_a_reminder_comes_at_its_time(
    browser: Browser, playground: str, heard: list[Body]
) -> None:
    page = await browser.new_page()
    await page.goto(playground)
    await expect(page.locator(".link")).to_have_text("live")
    pane = page.locator("section.pane").first
    answers = pane.locator(".said li").filter(has=page.locator(".badge:visible"))

    async def ask(text: str, answered: str = "") -> str:
        before = await answers.count()
        await pane.get_by_label("Message", exact=True).fill(text)
        await page.keyboard.press("Enter")
        await expect(answers.nth(before)).to_be_visible(timeout=WITHIN_MS)
        await expect(answers.last).to_contain_text(answered, ignore_case=True, timeout=WITHIN_MS)
        await expect(answers.last.get_by_role("button", name="Stop")).to_have_count(0, timeout=WITHIN_MS)
        await expect(pane.locator(".typing")).to_be_empty(timeout=WITHIN_MS)
        return await answers.last.inner_text()

    await ask("Use `remember` to write down: I am allergic to peanuts.")
    found = re.search(r"\b1 (.+) \(\d{4}-", await ask("/memory", "What I remember"))
    assert found
    await ask("/new", "new conversation")
    await ask("What should I not eat?")
    asked = [str(body["messages"]) for body in heard if "What should I not eat?" in str(body["messages"][-1])]
    assert any(found[1] in messages for messages in asked)
    await ask(REMINDER)
    reminder = re.search(r"\(UTC\): (.+)", await ask("/remind", "(UTC)"))
    assert reminder
    before = await answers.count()
    await expect(answers.nth(before)).to_be_visible(timeout=WITHIN_MS)
    await expect(answers.last).to_contain_text(reminder[1])
    print(await pane.locator(".said").inner_text())
