"""A person hands the agent a key, and the agent uses it without ever having it: the whole product on Telegram.

Ann pastes a key, is told so, asks for a call to an API, approves it, and hears the answer. The API got the key;
nothing that Trivet wrote, sent or was asked holds it. With the vault off, the same wish ends in words that help.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from channels.emulators.stage import Said
from tests.canary.nests import held, left
from tests.parts.model_server import Body, ModelServer, call, echo, last_user_text, serve_model
from tests.parts.product import Chat, Product, running_product
from tests.parts.waiting import until
from tests.scrubbing.slots import draw

KEY = draw("ghp_<base62:36>", seed=31)
ALLOWED = {"TRIVET_TOOLS__POLICY": '["allow web_fetch"]', "TRIVET_LOG__LEVEL": "debug"}


@dataclass
class Api:
    """The service that the key is for; it is so unwise as to repeat it."""

    port: int = 0
    heard: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.heard.append(request.headers.get("Authorization", ""))
        return web.json_response({"stars": 42, "your_header": self.heard[-1]})


@contextlib.asynccontextmanager
async def serve_api() -> AsyncIterator[Api]:
    found = Api()
    runner = web.ServerRunner(web.Server(found.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        await runner.cleanup()


def wise(origin: str) -> Callable[[Body], Body]:
    """A model that does as the system prompt says: it repeats the placeholder where a secret may stand."""

    def answer(body: Body) -> Body:
        newest = body["messages"][-1]
        if newest["role"] == "tool" or "<tool-failures>" in newest["content"]:
            results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
            return {"content": f"It says: {results[-1]}"}
        if "ask the service" not in last_user_text(body):
            return echo(body)
        (placeholder,) = set(re.findall(r"\[redacted:github#[0-9a-f]+\]", json.dumps(body["messages"][1:])))
        arguments = {"url": f"{origin}/me", "secret_headers": {"Authorization": f"Bearer {placeholder}"}}
        return call("web_fetch", json.dumps(arguments))

    return answer


async def approve(chat: Chat) -> None:
    """Press the first button of the question."""
    asked = await question(chat)
    approve = asked.buttons[0]
    await chat.stage.press_button(chat.person.id, asked.place_id, asked.id, approve.id)


async def question(chat: Chat) -> Said:
    def found() -> list[Said]:
        return [said for said in chat.stage.said(chat.place.id) if said.buttons]

    await until(lambda: bool(found()), lambda: chat.heard)
    return found()[0]


@contextlib.asynccontextmanager
async def product_with(folder: Path, api: Api, settings: dict[str, str]) -> AsyncIterator[tuple[Product, ModelServer]]:
    async with serve_model() as model:
        model.answer = wise(api.origin)
        async with running_product(
            folder, model=model, settings=ALLOWED | settings, platforms=("telegram",)
        ) as product:
            yield product, model


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_key_is_used_by_a_tool_and_is_nowhere_else(tmp_path: Path) -> None:
    async with serve_api() as api:
        vault = {"TRIVET_SCRUB__VAULT__ENABLED": "true", "TRIVET_SCRUB__VAULT__HOSTS": api.origin}
        async with product_with(tmp_path, api, vault) as (product, model):
            ann, ben = product.chat("telegram", "Ann"), product.chat("telegram", "Ben")
            told = await ann.ask(f"here is my key: {KEY}", "removed")
            assert "github" in told
            await ann.say("now ask the service")
            await approve(ann)
            await ann.until_answered('"stars": 42')
            assert api.heard == [f"Bearer {KEY}"]
            assert re.search(r'"your_header": "Bearer \[redacted:github#[0-9a-f]{6}\]"', ann.heard)
            stolen = re.search(r"\[redacted:github#[0-9a-f]{6}\]", ann.heard)
            assert stolen
            await ben.say(f"ask the service with {stolen[0]}")
            await approve(ben)
            await ben.until_answered("not available")
            assert len(api.heard) == 1
            await product.until_settled()
            places = await held(product, model)
            assert "vault:telegram:" in places["redis"]
        places |= left(product)
    assert "secret.lent" in places["logs"]
    assert "web_fetch" in places["database"].partition('INSERT INTO "loans"')[2]
    assert [place for place, text in places.items() if KEY[-16:] in text or KEY[4:20] in text] == []
    assert (product.data_dir / "vault-key").stat().st_mode & 0o777 == 0o600


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_without_the_vault_the_tool_says_what_to_do_instead(tmp_path: Path) -> None:
    async with serve_api() as api, product_with(tmp_path, api, {}) as (product, _):
        ann = product.chat("telegram", "Ann")
        await ann.ask(f"here is my key: {KEY}", "removed")
        assert "is not available to web_fetch, and nothing was done" in await ann.ask("now ask the service", "It says")
        assert not api.heard
        assert not (product.data_dir / "vault-key").exists()
