"""Secrets on their way from the vault into a tool: a real bus, a real web server on loopback, a real sandbox."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from agent.models.requests import RequestedCall
from agent.tools.approvals import ApprovalOutcome
from agent.tools.exec.sandbox import NoSandbox, find_sandbox
from agent.tools.exec.tools import execution_tools
from agent.tools.files.workspace import Workspaces
from agent.tools.registry import ToolRegistry
from agent.tools.secrets import SecretInjector
from agent.tools.tool import Tool, ToolContext, ToolResult
from agent.tools.toolbox import open_toolbox
from agent.tools.web.session import WebSession
from agent.tools.web.tools import web_tools
from channels.core.secrets import SecretCapture
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.contracts.messages import RemovedSecrets, SecretName, SecretUse
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from gateway.scrub.vault import Seal
from gateway.store.audit import SecretAudit
from gateway.store.foreign import ForeignDatabases
from tests.parts.agents import message
from tests.parts.tooling import OPEN, People, context, tool
from tests.scrubbing.slots import draw

ANNA, BORIS = "telegram:1", "telegram:2"
KEY = "the key of this test's vault, as text"
SECRET = draw("ghp_<base62:36>", seed=21)
PASSWORD = "Tr0ub4dor&3-horse"
SCRUBBER = Scrubber(placeholder_key=b"lending")


@dataclass
class Api:
    """A web server; `heard` are the headers that reached it."""

    runner: web.ServerRunner
    port: int = 0
    heard: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.heard.append(dict(request.headers))
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/"})
        token = request.headers.get("Authorization", "")
        shown = {"you": token, "coded": base64.b64encode(token.encode()).decode(), "path": request.path}
        return web.Response(
            status=403 if request.path == "/forbidden" else 200, text=json.dumps(shown), content_type="application/json"
        )


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    found = Api(runner := web.ServerRunner(web.Server(lambda request: found.handle(request))))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.port = runner.addresses[0][1]
    yield found
    await runner.cleanup()


async def sent(bus: RedisBus, text: str, key: str = ANNA, *, ttl_s: int = 60, uses: int = 3) -> str:
    """Somebody sends a text; the placeholder of its first secret."""
    clean = SCRUBBER.for_chat(key).scrub(text)
    keeping = SecretCapture(bus.vault, Seal(KEY), SCRUBBER, SystemClock(), ttl_s=ttl_s, uses=uses)
    await keeping.keep(replace(message(clean, key), removed=(RemovedSecrets("some", 1),)), text)
    found = PLACEHOLDER.search(clean)
    assert found
    return found[0]


class Book:
    """`SecretAudit` in a list."""

    def __init__(self) -> None:
        self.loans: list[SecretUse] = []

    async def record(self, loans: Sequence[SecretUse]) -> None:
        self.loans += loans


def lender(bus: RedisBus, *origins: str, key: str = KEY, book: Book | None = None) -> SecretInjector:
    return SecretInjector(
        bus.vault, Seal(key), cast(SecretAudit, book or Book()), SystemClock(), origins=frozenset(origins)
    )


def registry(*tools: Tool, lender: SecretInjector | None, people: People | None = None) -> ToolRegistry:
    return ToolRegistry(tools, SCRUBBER, SystemClock(), policy=OPEN, lender=lender, approvals=people or People())


async def run(tools: ToolRegistry, name: str, *, of: ToolContext | None = None, **arguments: object) -> ToolResult:
    (result,) = await tools.run_round(of or context(ANNA), [RequestedCall("c1", name, json.dumps(arguments))])
    return result


def echo(answer: Any = lambda given: given["secret"]) -> Tool:
    """A tool that says what it was given in its secret argument."""
    made = tool("echo", answer, properties={"secret": {"type": "string"}})
    return replace(made, secret_arguments=("secret",))


class TestWhoGetsWhat:
    async def test_a_tool_gets_the_value_and_the_model_the_placeholder(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"my token is {SECRET}")
        given: dict[str, str] = {}
        tools = registry(echo(lambda arguments: given.setdefault("it", arguments["secret"])), lender=lender(bus))
        result = await run(tools, "echo", secret=f"Bearer {handle}")
        assert given["it"] == f"Bearer {SECRET}"
        assert result.text == f"Bearer {handle}"

    async def test_a_password_that_no_rule_would_know_comes_back_as_its_placeholder(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        tools = registry(echo(lambda arguments: f"x{arguments['secret']}y"), lender=lender(bus))
        assert (await run(tools, "echo", secret=handle)).text == f"x{handle}y"

    async def test_what_one_tool_leaves_behind_another_does_not_show(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        file: dict[str, str] = {}
        reading = tool("read", lambda _: f"it says {file['it']}")
        tools = registry(echo(lambda given: file.setdefault("it", given["secret"])), reading, lender=lender(bus))
        await run(tools, "echo", secret=handle)
        assert (await run(tools, "read")).text == f"it says {handle}"

    async def test_a_person_is_asked_even_where_the_policy_allows_everything(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"token {SECRET}", uses=1)
        people = People((ApprovalOutcome.DENIED, ApprovalOutcome.APPROVED))
        tools = registry(echo(), lender=lender(bus), people=people)
        assert "was not approved" in (await run(tools, "echo", secret=handle)).text
        assert handle in people.asked[0].text
        assert (await run(tools, "echo", secret=handle)).text == handle
        assert len(people.asked) == 2

    async def test_it_is_written_down_who_gave_what_to_which_tool_before_it_runs(self, bus: RedisBus) -> None:
        handle, book = await sent(bus, f"token {SECRET}"), Book()
        seen: dict[str, list[SecretUse]] = {}
        tools = registry(echo(lambda _: str(seen.setdefault("then", [*book.loans]))), lender=lender(bus, book=book))
        await run(tools, "echo", secret=handle)
        (loan,) = seen["then"]
        anna = SessionKey.parse(ANNA)
        assert (loan.name, loan.tool, loan.turn_id) == (SecretName(anna, anna, handle), "echo", "turn-1")
        assert SECRET not in repr(loan)

    async def test_an_argument_that_is_not_secret_is_refused_with_the_vault_too(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"token {SECRET}", uses=1)
        people = People()
        tools = registry(echo(), lender=lender(bus), people=people)
        result = await run(tools, "echo", secret=handle, note=f"about {handle}")
        assert "in `note` stands for a secret" in result.text
        assert not people.asked
        assert not (await run(tools, "echo", secret=handle)).is_error

    async def test_without_a_vault_the_same_call_is_refused_with_words_that_help(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"token {SECRET}")
        result = await run(registry(echo(), lender=None), "echo", secret=handle)
        assert "The value is not available to echo" in result.text
        assert "tell the user" in result.text


class TestNotAvailable:
    """Whatever the reason is, the model is told the same."""

    async def refused(self, bus: RedisBus, handle: str, of: ToolContext | None = None, *, key: str = KEY) -> str:
        ran: dict[str, object] = {}
        tools = registry(echo(lambda given: str(ran.setdefault("with", given))), lender=lender(bus, key=key))
        result = await run(tools, "echo", of=of, secret=handle)
        assert result.is_error
        assert not ran
        return result.text.replace(handle, "IT")

    async def test_unknown_foreign_expired_used_up_and_sealed_under_another_key_are_one(self, bus: RedisBus) -> None:
        theirs = await sent(bus, f"token {SECRET}", BORIS)
        mine = await sent(bus, f"token {SECRET}", ANNA)
        assert mine != theirs
        told = {
            await self.refused(bus, "[redacted:github#000000]"),
            await self.refused(bus, "[redacted:github]"),
            await self.refused(bus, theirs),
            await self.refused(bus, mine, context(BORIS)),
            await self.refused(bus, mine, context(f"{ANNA}/-100")),
            await self.refused(bus, mine, replace(context(ANNA), asked_by=SessionKey.parse(BORIS))),
            await self.refused(bus, mine, key="the key that came after the first one"),
        }
        used_up = await sent(bus, f"token {SECRET}", ANNA, uses=1)
        await run(registry(echo(), lender=lender(bus)), "echo", secret=used_up)
        told.add(await self.refused(bus, used_up))
        told.add(await self.refused(bus, await sent(bus, f"token {SECRET}", ANNA, ttl_s=0)))
        (same,) = told
        assert same == (
            "The value of IT is not available to echo, and nothing was done. "
            "Tell the user; a secret that is needed has to be sent again."
        )

    async def test_eight_calls_at_once_get_as_many_as_there_are_uses(self, bus: RedisBus) -> None:
        handle = await sent(bus, f"token {SECRET}", uses=3)
        tools = registry(echo(), lender=lender(bus))
        results = await asyncio.gather(*(run(tools, "echo", secret=handle) for _ in range(8)))
        assert sorted(result.is_error for result in results) == [False] * 3 + [True] * 5

    async def test_a_call_that_fails_has_used_it_all_the_same_and_says_nothing_of_it(
        self, bus: RedisBus, caplog: pytest.LogCaptureFixture
    ) -> None:
        handle = await sent(bus, f"password: {PASSWORD}", uses=1)

        def crash(given: Mapping[str, str]) -> str:
            raise RuntimeError(f"cannot log in with {given['secret']}")

        tools = registry(echo(crash), lender=lender(bus))
        with caplog.at_level(logging.DEBUG):
            result = await run(tools, "echo", secret=handle)
        assert result.text == "echo failed: RuntimeError"
        assert PASSWORD not in caplog.text
        assert "not available" in await self.refused(bus, handle)


class TestHttp:
    @pytest.fixture
    async def session(self, api: Api) -> AsyncIterator[WebSession]:
        async with WebSession(exempt=[("127.0.0.1", api.port)]) as session:
            yield session

    @pytest.fixture
    async def public(self) -> AsyncIterator[WebSession]:
        async with WebSession() as session:
            yield session

    @pytest.fixture
    def offered(self, public: WebSession, session: WebSession) -> Sequence[Tool]:
        offered, _ = web_tools(public, None, lent=session)
        return offered

    async def test_a_header_reaches_a_host_that_was_named(
        self, bus: RedisBus, api: Api, offered: Sequence[Tool]
    ) -> None:
        handle = await sent(bus, f"use {SECRET} please")
        headers = {"Authorization": f"Bearer {handle}"}
        tools = registry(*offered, lender=lender(bus, api.origin))
        result = await run(tools, "web_fetch", url=f"{api.origin}/me", secret_headers=headers)
        assert api.heard[0]["Authorization"] == f"Bearer {SECRET}"
        assert handle in result.text
        assert "/me" in result.text
        assert not any(SECRET[at : at + 8] in result.text for at in range(len(SECRET) - 7))
        assert base64.b64encode(f"Bearer {SECRET}".encode()).decode()[8:24] not in result.text

    @pytest.mark.parametrize("named", [(), ("https://127.0.0.1",), ("http://127.0.0.1",), ("http://localhost",)])
    async def test_any_other_host_is_refused_before_anybody_is_asked(
        self, bus: RedisBus, api: Api, offered: Sequence[Tool], named: tuple[str, ...]
    ) -> None:
        handle = await sent(bus, f"use {SECRET} please")
        tools = registry(*offered, lender=lender(bus, *named))
        result = await run(tools, "web_fetch", url=api.origin, secret_headers={"X-Key": handle})
        assert "has not named this host" in result.text
        assert not api.heard

    async def test_a_host_that_was_named_is_open_to_calls_with_a_secret_alone(
        self, bus: RedisBus, api: Api, tmp_path: Path
    ) -> None:
        """As the toolbox has them, and not even over the connection that such a call has left behind."""
        handle, said = await sent(bus, f"use {SECRET} please"), Counter[bool]()
        async with open_toolbox(
            ToolSettings(policy=("allow network",)),
            workspaces=Workspaces(tmp_path / WORKSPACES),
            own=(),
            databases=ForeignDatabases({}),
            scrubber=SCRUBBER,
            clock=SystemClock(),
            approvals=People(),
            lender=lender(bus, api.origin),
        ) as tools:
            for headers in ({"X-Key": handle}, {"X-Key": "a word"}, {}):
                result = await run(tools, "web_fetch", url=f"{api.origin}/me", secret_headers=headers)
                said["not on the public web" in result.text] += 1
        assert said == {False: 1, True: 2}
        assert [heard.get("X-Key") for heard in api.heard] == [SECRET]

    async def test_it_is_never_put_into_an_address(self, bus: RedisBus, api: Api, offered: Sequence[Tool]) -> None:
        handle = await sent(bus, f"use {SECRET} please")
        tools = registry(*offered, lender=lender(bus, api.origin))
        result = await run(tools, "web_fetch", url=f"{api.origin}/?key={handle}", secret_headers={"X-Key": handle})
        assert "in `url` stands for a secret" in result.text
        assert not api.heard

    async def test_a_redirect_is_not_followed_with_it(self, bus: RedisBus, api: Api, offered: Sequence[Tool]) -> None:
        handle = await sent(bus, f"use {SECRET} please")
        tools = registry(*offered, lender=lender(bus, api.origin))
        result = await run(tools, "web_fetch", url=f"{api.origin}/moved", secret_headers={"X-Key": handle})
        assert "where these headers do not go" in result.text
        assert len(api.heard) == 1

    async def test_an_error_of_the_host_is_rid_of_it_too(
        self, bus: RedisBus, api: Api, offered: Sequence[Tool]
    ) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        tools = registry(*offered, lender=lender(bus, api.origin))
        headers = {"Authorization": handle}
        result = await run(tools, "web_fetch", url=f"{api.origin}/forbidden", secret_headers=headers)
        assert result.is_error
        assert "status 403" in result.text
        assert PASSWORD not in result.text

    @pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "X Key", "X:Key", ""])
    async def test_a_header_that_frames_the_request_is_refused(
        self, bus: RedisBus, api: Api, offered: Sequence[Tool], name: str
    ) -> None:
        handle = await sent(bus, f"use {SECRET} please")
        tools = registry(*offered, lender=lender(bus, api.origin))
        result = await run(tools, "web_fetch", url=api.origin, secret_headers={name: handle})
        assert "no header that can be set" in result.text
        assert not api.heard


class TestShell:
    @pytest.fixture
    async def tools(self, bus: RedisBus, tmp_path: Path) -> ToolRegistry:
        sandbox = await find_sandbox(hidden=[tmp_path / "hidden"])
        if isinstance(sandbox, NoSandbox):
            pytest.skip(sandbox.reason)
        offered, _ = execution_tools(sandbox, Workspaces(tmp_path), has_vault=True)
        return registry(*offered, lender=lender(bus))

    async def test_a_command_finds_it_in_its_environment(self, bus: RedisBus, tools: ToolRegistry) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        command = 'sha256sum <<< "$DB_PASSWORD"; printenv DB_PASSWORD; echo ${DB_PASSWORD:2:10}'
        result = await run(tools, "shell", command=command, secret_env={"DB_PASSWORD": handle})
        hashed, whole, piece = result.text.split("\n")[:3]
        assert re.match(r"[0-9a-f]{64}\b", hashed)
        assert (whole, piece) == (handle, handle)

    async def test_no_other_process_of_the_machine_sees_it(self, bus: RedisBus, tools: ToolRegistry) -> None:
        """Neither the sandbox's command line, nor what a later command finds."""
        handle = await sent(bus, f"password: {PASSWORD}")
        running = asyncio.create_task(
            run(tools, "shell", command="touch began; sleep 0.5; echo $K | wc -c", secret_env={"K": handle})
        )
        lines = ""
        while not running.done():
            lines += "".join(_command_lines())
            await asyncio.sleep(0.02)
        assert running.result().text.strip() == str(len(PASSWORD) + 1)
        assert "bwrap" in lines
        assert PASSWORD not in lines
        assert (await run(tools, "shell", command="echo [$K]")).text.strip() == "[]"

    async def test_it_is_never_put_into_a_command(self, bus: RedisBus, tools: ToolRegistry) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        result = await run(tools, "shell", command=f"echo '{handle}'", secret_env={"K": handle})
        assert "in `command` stands for a secret" in result.text

    @pytest.mark.parametrize("name", ["PATH", "HOME", "LD_PRELOAD", "A=B", "1A", "", "Ä"])
    async def test_a_name_that_would_change_what_runs_is_refused(
        self, bus: RedisBus, tools: ToolRegistry, name: str
    ) -> None:
        handle = await sent(bus, f"password: {PASSWORD}")
        result = await run(tools, "code_exec", language="bash", code="true", secret_env={name: handle})
        assert "no name for a secret variable" in result.text


def _command_lines() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (process / "cmdline").read_text(errors="replace")
