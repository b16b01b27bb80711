"""kill -9 of the agent in the same turns until they are given up; what the operator does about it is done once."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import httpx
import pytest

from gateway.limits import TURN_ATTEMPTS_MAX
from tests.parts.ports import LOOPBACK
from tests.parts.product import Chat, Product, clean_environment, running_product
from tests.parts.waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
THINKING = {"TRIVET_AGENT__MODEL": "demo/scripted@4000ms"}  # so that each kill finds all turns at work
WORDS = {"telegram": "anise", "discord": "basil", "slack": "cumin"}
APOLOGY = "I tried several times and could not answer your message."


async def test_what_was_given_up_is_tried_again_once_by_page_and_by_command_or_dropped(tmp_path: Path) -> None:
    """Asked for twice, a try is made once; every reference in a chat leads to all of it."""
    async with running_product(tmp_path, settings=THINKING) as product:
        chats = {platform: product.chat(platform, "Ann") for platform in WORDS}
        for platform, chat in chats.items():
            await chat.say(f"say {WORDS[platform]}")
        for run in range(1, TURN_ATTEMPTS_MAX + 1):
            await until_begun(product, [run] * len(chats))
            await product.kill("agent")
        for chat in chats.values():
            await chat.until_answered(APOLOGY)
        letters = await product.api("/api/v1/dead-letters")
        ids = {letter["key"].partition(":")[0]: letter["id"] for letter in letters}
        assert sorted(ids) == sorted(chats)

        assert [await ordered(product, "POST", f"{ids['telegram']}/retry") for _ in range(2)] == [204, 404]
        assert [(await command(product, "dead", "retry", ids["discord"]))[0] for _ in range(2)] == [0, 1]
        assert await ordered(product, "DELETE", ids["slack"]) == 204
        assert await ordered(product, "POST", f"{ids['slack']}/retry") == 404
        for platform in ("telegram", "discord"):
            await chats[platform].until_answered(WORDS[platform])
        for chat in chats.values():
            await chat.ask("say still here", "still here")
        await product.until_settled()
        assert {platform: answered(chat, WORDS[platform]) for platform, chat in chats.items()} == {
            "telegram": (1, 1),
            "discord": (1, 1),
            "slack": (1, 0),
        }
        assert await product.api("/api/v1/dead-letters") == []

        for platform, chat in chats.items():
            (reference,) = re.findall(r"\(Reference (\w+)\)", chat.heard)
            hops = await product.api(f"/api/v1/trace/{reference}")
            assert await product.api(f"/api/v1/trace/{ids[platform]}") == hops
            assert [hop["name"] for hop in hops].count("given up") == 1
            assert [hop["name"] for hop in hops].count("answered") == (platform != "slack")
            status, printed = await command(product, "trace", reference)
            assert (status, reference in printed) == (0, True)
        status, printed = await command(product, "trace", "AAAAAA")
        assert status == 1
        assert "nothing is known of 'AAAAAA'" in printed


async def until_begun(product: Product, times: list[int]) -> None:
    """Wait until each turn was begun so often."""

    def runs() -> list[int]:
        with contextlib.closing(product.database()) as connection:
            return [count for (count,) in connection.execute("SELECT runs FROM turns")]

    await until(lambda: runs() == times, runs)


def answered(chat: Chat, word: str) -> tuple[int, int]:
    """How often the bot apologised, and how often it said the word."""
    return chat.heard.count(APOLOGY), chat.heard.count(word)


async def ordered(product: Product, method: str, path: str) -> int:
    """What the operator's API answers to a change of a dead letter."""
    headers = {"Authorization": f"Bearer {product.admin_token}"}
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{product.port}", headers=headers) as client:
        return (await client.request(method, f"/api/v1/dead-letters/{path}")).status_code


async def command(product: Product, *words: str) -> tuple[int, str]:
    """A `trivet` command beside the running product: its exit code, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "gateway", *words),
        env=clean_environment() | dict(product.settings),
        cwd=product.log_file.parent,
        stdout=PIPE,
        stderr=STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()
