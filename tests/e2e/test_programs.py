"""Programs talk to a whole Trivet over HTTP, each with the token that `trivet clients add` printed."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import httpx2
import jsonschema
import mcp
import pytest
import pytest_asyncio
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from channels.emulators.serving import listening
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.product import Product, clean_environment, running_product
from tests.parts.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
DOCUMENTED = json.loads((Path(__file__).parents[2] / "docs/reference/openapi.json").read_text("utf-8"))
SECRET = "a secret of sixteen or more"
SLOW = {"TRIVET_AGENT__MODEL": "demo/scripted@400ms"}


@dataclass(frozen=True)
class Programs:
    """A Trivet whose port for programs is open, and whose operator can be asked for clients."""

    product: Product
    url: str

    def trivet(self, *words: str) -> str:
        """What a command of the operator prints."""
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *words],
            env=clean_environment() | dict(self.product.settings),
            cwd=self.product.log_file.parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    def add(self, name: str, *more: str) -> tuple[str, str]:
        """A new client: what it is called, and its token."""
        said = self.trivet("clients", "add", name, *more)
        return said.split(" ", 1)[0].removeprefix("api:"), said.split()[-1]

    def http(self, token: str) -> httpx.AsyncClient:
        """A client whose every answer is one that is documented."""
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            event_hooks={"response": [is_documented]},
        )


async def is_documented(answer: httpx.Response) -> None:
    route = re.sub(r"(?<=messages/)\w[^/]*", "{id}", answer.request.url.path).replace("/api/v1/chat", "/v1/chat")
    described = DOCUMENTED["paths"][route][answer.request.method.lower()]["responses"][str(answer.status_code)][
        "content"
    ]
    kind = answer.headers["content-type"].partition(";")[0]
    schema = described[kind].get("schema")
    if schema is not None:
        await answer.aread()
        jsonschema.validate(answer.json(), {**schema, "components": DOCUMENTED["components"]})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hooks() -> AsyncIterator[tuple[str, list[Request]]]:
    """A webhook that refuses the first call."""
    calls: list[Request] = []

    async def take(request: Request) -> Response:
        await request.body()
        calls.append(request)
        return Response(status_code=500 if len(calls) == 1 else 204)

    async with listening(Starlette(routes=[Route("/hook", take, methods=["POST"])])) as port:
        yield f"http://{LOOPBACK}:{port}/hook", calls


@dataclass
class Listener:
    """A webhook of the operator; what it `holds` gets no answer as long as it does."""

    events: list[tuple[Request, dict[str, str]]] = field(default_factory=list)
    holds: str = "nothing"
    url: str = ""

    async def take(self, request: Request) -> Response:
        event = await request.json()
        self.events.append((request, event))
        while self.holds in event["text"]:  # noqa: ASYNC110 - a test lets go
            await asyncio.sleep(0.01)
        return Response(status_code=204)

    def told(self, words: str) -> list[dict[str, str]]:
        """The events that say these words."""
        return [event for _, event in self.events if words in event["text"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    async with listening(Starlette(routes=[Route("/events", listener.take, methods=["POST"])])) as port:
        listener.url = f"http://{LOOPBACK}:{port}/events"
        yield listener


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def programs(
    tmp_path_factory: pytest.TempPathFactory, hooks: tuple[str, list[Request]], listener: Listener
) -> AsyncIterator[Programs]:
    port = free_port()
    settings = SLOW | {
        "TRIVET_CHANNELS__API__ENABLED": "true",
        "TRIVET_CHANNELS__API__PORT": str(port),
        "TRIVET_CHANNELS__API__WEBHOOKS": json.dumps([hooks[0]]),
        "TRIVET_WEBHOOKS": json.dumps([{"url": listener.url, "secret": SECRET, "private": True, "name": "all"}]),
    }
    folder: Path = tmp_path_factory.mktemp("programs")
    async with running_product(folder, settings=settings, platforms=()) as product:
        yield Programs(product, f"http://{LOOPBACK}:{port}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def token(programs: Programs) -> str:
    """That of a client whom most tests share, each with threads and ids of its own."""
    return programs.add("shop")[1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(programs: Programs) -> str:
    """That of another one."""
    return programs.add("stranger")[1]


@pytest.fixture(scope="module")
def openai() -> Any:
    """The vendor's client: every worker would wait a second for it, were it imported above."""
    return import_module("openai")


async def test_a_message_is_answered_and_can_be_fetched_by_its_client_alone(
    programs: Programs, token: str, other: str
) -> None:
    async with programs.http(token) as shop, programs.http(other) as stranger:
        answered = await shop.post("/api/v1/messages", json={"text": "say seven", "id": "first", "thread": "t1"})
        assert answered.status_code == 200
        assert "seven" in answered.json()["answers"][0]["text"]
        fetched = await shop.get("/api/v1/messages/first")
        assert fetched.json() == answered.json()
        assert (await stranger.get("/api/v1/messages/first")).status_code == 404
        await stranger.post("/api/v1/messages", json={"text": "say hello", "thread": "t1"})
        heard = await stranger.post("/api/v1/messages", json={"text": "history", "thread": "t1"})
        assert "seven" not in heard.text


async def test_what_comes_twice_is_answered_once(programs: Programs, token: str) -> None:
    async with programs.http(token) as client:
        asked = [
            client.post("/api/v1/messages", json={"text": "say once", "id": "same", "thread": "twice"})
            for _ in range(3)
        ]
        answers = {(await answer).json()["answers"][0]["id"] for answer in asked}
        assert len(answers) == 1
        heard = await client.post("/api/v1/messages", json={"text": "history", "thread": "twice"})
        assert heard.json()["answers"][0]["text"].count("say once") == 1


async def test_who_does_not_wait_asks_later_or_listens(programs: Programs, token: str) -> None:
    async with programs.http(token) as client:
        waiting = await client.post("/api/v1/messages", json={"text": "say later", "id": "a", "wait_s": 0})
        assert (waiting.status_code, waiting.json()) == (202, {"id": "a", "state": "waiting", "answers": []})
        events = (await client.get("/api/v1/messages/a/events")).text.split("\n\n")
        last = [event for event in events if event][-1]
        assert last.startswith("event: answer\n")
        assert "later" in last


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer trivet_client_token_" + "A" * 43 + ".shop-0a1b2c"}, 401)],
    ids=["no token", "a token of nobody"],
)
async def test_nobody_else_is_heard(programs: Programs, headers: dict[str, str], status: int) -> None:
    async with httpx.AsyncClient(base_url=programs.url, headers=headers) as client:
        assert (await client.post("/api/v1/messages", json={"text": "hello"})).status_code == status
        assert (await client.get("/v1/models")).status_code == status
        assert "error" in (await client.get("/api/v1/models")).json()


@pytest.mark.long
async def test_a_client_that_was_removed_is_not_heard_from_its_next_request_on(programs: Programs, openai: Any) -> None:
    name, token = programs.add("gone")
    async with programs.http(token) as client:
        assert (await client.post("/api/v1/messages", json={"text": "say hello"})).status_code == 200
        programs.trivet("clients", "remove", name)
        for refused in (
            await client.post("/api/v1/messages", json={"text": "say hello"}),
            await client.get("/api/v1/messages/none"),
            await client.get("/v1/models"),
        ):
            assert refused.status_code == 401
            assert refused.json()["error"]["message"] == refused.json()["detail"]
        assert name not in programs.trivet("clients", "list")
    async with openai.AsyncOpenAI(api_key=token, base_url=f"{programs.url}/v1") as removed:
        with pytest.raises(openai.AuthenticationError, match="was removed"):
            await removed.chat.completions.create(model="trivet", messages=[{"role": "user", "content": "hello"}])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"text": " "}, "text is empty"),
        ({"text": "x", "id": "a/b"}, "id has 1 to 64"),
        ({"text": "x", "webhook": "http://127.0.0.1:1/"}, "channels.api.webhooks"),
        ({"txt": "x"}, "text: Field required"),
        ({"text": "x", "wait_s": 1e9}, "wait_s: "),
    ],
    ids=["empty", "id", "webhook", "field", "wait"],
)
async def test_bad_input_gets_a_clear_error(programs: Programs, token: str, body: dict[str, object], says: str) -> None:
    async with programs.http(token) as client:
        refused = await client.post("/api/v1/messages", json=body)
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]


async def test_the_unmodified_client_of_openai_talks_to_the_agent(programs: Programs, token: str, openai: Any) -> None:
    async with openai.AsyncOpenAI(api_key=token, base_url=f"{programs.url}/v1") as client:
        assert [model.id for model in (await client.models.list()).data] == ["trivet"]
        said = await client.chat.completions.create(
            model="trivet", messages=[{"role": "user", "content": "say the number nine"}], user="u1"
        )
        assert "the number nine" in (said.choices[0].message.content or "")
        stream = await client.chat.completions.create(
            model="trivet", messages=[{"role": "user", "content": "history"}], user="u1", stream=True
        )
        pieces = [piece.choices[0].delta.content or "" async for piece in stream]
        assert "say the number nine" in "".join(pieces)
        with pytest.raises(openai.BadRequestError, match="last message must be the user's"):
            await client.chat.completions.create(model="trivet", messages=[{"role": "system", "content": "x"}])


async def test_chats_that_begin_alike_are_what_their_clients_say(programs: Programs, token: str) -> None:
    """Without `user` the client keeps the conversation: it sends it whole each time, and nothing else is in it."""
    first = {"role": "user", "content": "say hello"}
    async with programs.http(token) as client:

        async def ask(*messages: dict[str, str]) -> str:
            answered = await client.post("/api/v1/chat/completions", json={"messages": messages})
            return str(answered.json()["choices"][0]["message"]["content"])

        hello = {"role": "assistant", "content": await ask(first)}
        await ask(first, hello, {"role": "user", "content": "say plums"})
        assert "You quoted user: say hello" in await ask(first, hello, {"role": "user", "content": "And now?"})
        heard = await ask(first, hello, {"role": "user", "content": "history"})
        assert "I can see 1 message(s) of yours" in heard


async def test_a_webhook_is_called_until_it_takes_the_answer(
    programs: Programs, token: str, hooks: tuple[str, list[Request]]
) -> None:
    address, calls = hooks
    async with programs.http(token) as client:
        await client.post("/api/v1/messages", json={"text": "say hooked", "id": "h", "webhook": address, "wait_s": 0})
        await until(lambda: len(calls) > 1)
    bodies = [json.loads(await call.body()) for call in calls]
    assert bodies[0]["id"] == bodies[1]["id"]
    assert (bodies[1]["message_id"], "hooked" in bodies[1]["text"]) == ("h", True)
    at_s, signed = (part.split("=")[1] for part in calls[1].headers["x-trivet-signature"].split(","))
    expected = hmac.new(token.encode(), f"{at_s}.".encode() + await calls[1].body(), sha256).hexdigest()
    assert hmac.compare_digest(signed, expected)


@pytest.mark.parametrize("role", ["channels", "agent"])
async def test_a_killed_process_costs_no_answer(programs: Programs, token: str, role: str) -> None:
    order = {"text": f"say survived {role}", "id": f"k-{role}", "thread": "k", "wait_s": 0}
    async with programs.http(token) as client:
        assert (await client.post("/api/v1/messages", json=order)).status_code == 202
        await programs.product.kill(role)
        async with asyncio.timeout(60):
            while True:
                try:
                    told = (await client.get(f"/api/v1/messages/k-{role}")).json()
                except httpx.TransportError:
                    told = {}
                if told.get("state") == "answered":
                    break
                await asyncio.sleep(0.2)
    assert [f"survived {role}" in answer["text"] for answer in told["answers"]] == [True]


async def test_events_are_told_again_with_the_same_id_after_a_kill_in_the_middle_of_a_call(
    programs: Programs, token: str, listener: Listener
) -> None:
    listener.holds = "walnuts"
    async with programs.http(token) as client:
        await client.post("/api/v1/messages", json={"text": "say walnuts", "thread": "told", "id": "told", "wait_s": 0})
        await until(lambda: listener.told("walnuts"))
        await programs.product.kill("channels")
        listener.holds = "nothing"
        await until(lambda: len(listener.told("walnuts")) > 1)
    first, again = listener.told("walnuts")[:2]
    assert first == again
    assert (first["type"], first["key"].partition("-")[0]) == ("turn_answered", "api:shop")
    request, _ = listener.events[0]
    at_s, signed = (part.split("=")[1] for part in request.headers["x-trivet-signature"].split(","))
    expected = hmac.new(SECRET.encode(), f"{at_s}.".encode() + await request.body(), sha256).hexdigest()
    assert hmac.compare_digest(signed, expected)


@contextlib.asynccontextmanager
async def mcp_client(programs: Programs, token: str, mode: str = "auto") -> AsyncIterator[mcp.Client]:
    """The unmodified client of the MCP SDK, with a token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        mcp.Client(streamable_http_client(f"{programs.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def said_by(client: mcp.Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, mcp.types.CallToolResult)
    assert isinstance(result.content[0], mcp.types.TextContent)
    return f"{'error: ' if result.is_error else ''}{result.content[0].text}"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_unmodified_client_of_mcp_asks_and_is_answered(programs: Programs, token: str, mode: str) -> None:
    async with mcp_client(programs, token, mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"ask", "send", "sessions", "remind"}
        assert "eleven" in await said_by(client, "ask", text="say eleven", id=f"m-{mode}", thread=mode)
        assert "eleven" in await said_by(client, "ask", text="say twelve", id=f"m-{mode}")  # the same message
        sent = await client.call_tool("send", {"text": "say thirteen", "thread": mode})
        assert "thirteen" in await said_by(client, "ask", text="", id=sent.structured_content["id"])
        assert "Say eleven" in await said_by(client, "sessions", thread=mode)
        assert "/remind cancel" in await said_by(client, "remind", when="in 2 hours", text="water the plants")
        assert (await said_by(client, "ask", text=" ")).startswith("error: text is empty")
        assert (await said_by(client, "ask", text="x", colour="red")).startswith("error: colour: ")
        assert (await said_by(client, "delete")).startswith("error: there is no tool 'delete'")


async def test_an_mcp_client_reaches_nothing_of_another(programs: Programs, token: str, other: str) -> None:
    async with mcp_client(programs, token) as shop, mcp_client(programs, other) as stranger:
        await said_by(shop, "ask", text="say turquoise", id="mine", thread="t")
        await said_by(shop, "remind", when="in 2 hours", text="turquoise")
        heard = [
            await said_by(stranger, "ask", text="", id="mine"),
            await said_by(stranger, "sessions", thread="t"),
            await said_by(stranger, "ask", text="history", thread="t"),
            await said_by(stranger, "ask", text="/remind"),
        ]
    assert heard[0].startswith("error: no message of yours")
    assert "turquoise" not in "".join(heard)
    async with httpx.AsyncClient(base_url=programs.url) as client:
        assert (await client.post("/mcp", json={})).status_code == 401
        assert (await client.get("/mcp", headers={"Authorization": f"Bearer {token}"})).status_code == 405
