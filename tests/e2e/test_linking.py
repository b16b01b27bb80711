"""One person on two platforms, through the real client libraries: a code of one, entered at the other; then parted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parts.product import Chat, running_product

LIMITED = {"TRIVET_LIMITS__GUEST__TURNS": "5"}


async def code_for(chat: Chat) -> str:
    found = re.search(r"/link ([A-Z0-9]{8})\b", await chat.ask("/link", "Do not show the code"))
    assert found is not None
    return found[1]


@pytest.mark.long
async def test_memory_and_budget_are_one_until_the_accounts_part(tmp_path: Path) -> None:
    """Telegram gives the code, Slack takes it; a third account that knows it later is told nothing."""
    async with running_product(tmp_path, platforms=("telegram", "slack"), settings=LIMITED) as product:
        ann, sue, eve = (product.chat(*who) for who in (("telegram", "Ann"), ("slack", "Sue"), ("slack", "Eve")))
        await ann.ask("remember My dog is called Rex")
        code = await code_for(ann)
        key = f"telegram:{ann.person.id}"
        shown = await sue.ask(f"/link {code.lower()}", "Nothing is joined yet")
        assert f"on Telegram: {key}" in shown.replace("`", "").replace("*", "")
        assert await product.api("/api/v1/links") == []
        page = next(said for said in sue.stage.said(sue.place.id) if said.buttons)
        assert [button.label for button in page.buttons] == ["Join", "Do not join"]
        await sue.stage.press_button(sue.person.id, page.place_id, page.id, page.buttons[0].id)
        await sue.until_answered("one person to me now")
        await ann.until_answered("used your code")
        assert "I do not know that code" in await eve.ask(f"/link {code}", "code")
        assert "Rex" in await sue.ask("/memory", "Rex")
        assert "turns: 1 of 5" in await sue.ask("/usage", "turns")
        await sue.ask("say hello", "hello")
        assert "turns: 2 of 5" in await ann.ask("/usage", "turns")
        assert key in (await product.api(f"/api/v1/links/{key}"))["keys"]
        assert len((await product.api("/api/v1/links"))[0]["keys"]) == 2
        assert "Not linked any more" in await sue.ask("/unlink telegram", "Not linked")
        assert "Rex" not in await sue.ask("/memory", "remember")
        assert "Rex" in await ann.ask("/memory", "Rex")
        assert await product.api("/api/v1/links") == []
        assert sum("used your code" in answer for answer in ann.answers) == 1
