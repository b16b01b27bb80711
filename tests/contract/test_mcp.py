"""MCP servers, real ones as real processes: on standard streams and on streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.tools.exec.processes import marked
from agent.tools.files.workspace import Workspaces
from agent.tools.mcp import McpLink, McpServer, McpTools, tool_name
from agent.tools.mcp_confinement import ServerAccess, ServerConfinement, find_confinement, not_held
from agent.tools.registry import ToolRegistry
from agent.tools.tool import Enclosures, Tool
from gateway.clock import SystemClock
from gateway.contracts.context_blocks import block, images_in
from gateway.contracts.errors import ToolError
from gateway.scrub import Scrubber
from gateway.tasks import SharedThreads
from tests.doubles import ManualClock
from tests.parts.mcp_server import PNG, TOKEN
from tests.parts.ports import free_port
from tests.parts.tooling import call, context, registry, run
from tests.parts.waiting import until

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.parts.mcp_server")
COMES_BACK_S = 30.0
STDIO = McpServer(
    "local",
    COMMAND,
    {"PYTHONPATH": str(ROOT), "GIVEN": "to the server"},
    timeout_s=20.0,
    access=ServerAccess(is_confined=False),
)


@asynccontextmanager
async def offered(*servers: McpServer, confinement: ServerConfinement | None = None) -> AsyncIterator[ToolRegistry]:
    """A registry with the tools of these servers, while they are kept."""
    tools = registry()
    known: list[str] = []

    def offer(found: Sequence[Tool], category: str) -> None:
        tools.offer_instead(found, category)
        known.extend(tool.spec.name for tool in found)

    threads, folder = SharedThreads("files", 1, 1), tempfile.TemporaryDirectory()
    workspaces = Workspaces(Path(folder.name))
    kept = McpTools(servers, Scrubber(), SystemClock(), confinement, workspaces, threads)
    keeping = asyncio.create_task(kept.serve(offer))
    try:
        await until(lambda: len({name.split("_")[1] for name in known}) == len(servers) or keeping.done())
        yield tools
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        threads.close()
        folder.cleanup()


@asynccontextmanager
async def over_http(port: int = 0) -> AsyncIterator[int]:
    """The server as a process that listens; its port."""
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(*COMMAND, str(port), cwd=ROOT)
    try:
        await until(lambda: _listens(port))
        yield port
    finally:
        with suppress(ProcessLookupError):  # it may have been told to die
            process.kill()
        await process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_tools_of_a_program_are_offered_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets what it was given and nothing of ours, and ends with us."""
    monkeypatch.setenv("OPENAI_API_KEY", "of the agent")
    async with offered(STDIO) as tools:
        names = [spec.name for spec in tools.specs if spec.name.startswith("mcp_")]
        assert {"mcp_local_add", "mcp_local_fail"} <= set(names)
        assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)
        result = await run(tools, "mcp_local_add", a=20, b=22)
        assert not result.is_error
        assert "\n42\n" in result.text
        assert result.text.startswith("<foreign mark=")
        given = (await run(tools, "mcp_local_environment")).text
        assert "GIVEN=to the server" in given
        assert "OPENAI_API_KEY" not in given
        odd = next(name for name in names if name.startswith("mcp_local_a_name"))
        assert "odd" in (await run(tools, odd)).text
        pid = int((await run(tools, "mcp_local_pid")).text.splitlines()[2])
    assert not is_alive(pid)


@pytest.mark.parametrize("mode", ["now", "of 2025"])
async def test_tools_that_a_server_gets_and_loses_are_offered_and_not_and_its_images_are_seen(mode: str) -> None:
    old = replace(STDIO, environment={**STDIO.environment, "ONLY_HANDSHAKES": "1"})
    async with offered(old if mode == "of 2025" else STDIO) as tools:
        assert "mcp_local_grown" not in tools.names
        await run(tools, "mcp_local_grow")
        await until(lambda: "mcp_local_grown" in tools.names)
        assert "grown" in (await run(tools, "mcp_local_grown")).text
        await run(tools, "mcp_local_shrink")
        await until(lambda: "mcp_local_grown" not in tools.names)
        await an_image_goes_to_the_person_and_before_the_model(tools)


async def an_image_goes_to_the_person_and_before_the_model(tools: ToolRegistry) -> None:
    turn = replace(context(), enclosures=(files := Enclosures()))
    results = await tools.run_round(turn, [call("mcp_local_picture", kind=kind) for kind in ("png", "odd")])
    assert [result.is_error for result in results] == [False, False]
    assert "mcp/local-" in results[0].text
    assert "not shown" in results[1].text
    (sent,) = files.files
    assert (sent.media_type, sent.size_bytes) == ("image/png", len(PNG))
    assert [seen.path for seen in images_in(block(files.take_shown()))] == [f"mcp/{sent.name}"]


async def test_wrong_arguments_and_errors_of_the_server_are_error_results() -> None:
    async with offered(STDIO) as tools:
        assert "$.a" in (await run(tools, "mcp_local_add", a="x", b=1)).text
        failed = await run(tools, "mcp_local_fail", kind="error")
        assert failed.is_error
        assert "Error executing tool fail" in failed.text


async def test_a_server_that_dies_is_an_error_and_is_started_again_at_the_next_call() -> None:
    async with offered(STDIO) as tools:
        before = (await run(tools, "mcp_local_pid")).text
        died = await run(tools, "mcp_local_fail", kind="death")
        assert died.is_error
        assert "started again" in died.text
        after = await run(tools, "mcp_local_pid")
        assert not after.is_error, after.text
        assert after.text.splitlines()[2] != before.splitlines()[2]


async def test_a_server_killed_between_calls_costs_one_call_at_most() -> None:
    async with offered(STDIO) as tools:
        pid = int((await run(tools, "mcp_local_pid")).text.splitlines()[2])
        os.kill(pid, signal.SIGKILL)
        results = [await run(tools, "mcp_local_add", a=1, b=number) for number in range(2)]
        assert not results[-1].is_error, results[-1].text


async def test_a_slow_call_is_given_up_and_the_others_go_on() -> None:
    quick = replace(STDIO, timeout_s=2.0)
    async with offered(quick) as tools:
        slow, fast = await tools.run_round(
            context(), [call("mcp_local_wait", seconds=60), call("mcp_local_add", a=1, b=1)]
        )
        assert slow.is_error
        assert "did not finish within 2 s" in slow.text
        assert not fast.is_error
        assert not (await run(tools, "mcp_local_add", a=2, b=2)).is_error


async def test_a_cancelled_call_leaves_the_server_usable() -> None:
    async with offered(STDIO) as tools:
        turn = asyncio.create_task(tools.run_round(context(), [call("mcp_local_wait", seconds=60)]))
        await asyncio.sleep(0.05)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert not (await run(tools, "mcp_local_add", a=2, b=2)).is_error


async def test_a_server_over_http_is_asked_with_its_headers() -> None:
    async with over_http() as port:
        remote = McpServer("far", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": TOKEN})
        async with offered(remote, STDIO) as tools:
            assert "\n5\n" in (await run(tools, "mcp_far_add", a=2, b=3)).text
            assert "\n6\n" in (await run(tools, "mcp_local_add", a=3, b=3)).text


async def test_a_server_over_http_that_comes_back_is_used_again() -> None:
    async with over_http() as port:
        remote = McpServer("far", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": TOKEN}, timeout_s=10.0)
        async with offered(remote) as tools:
            assert (await run(tools, "mcp_far_fail", kind="death")).is_error
            async with over_http(port):
                async with asyncio.timeout(COMES_BACK_S):  # a busy machine may take two tries more than an idle one
                    while (await run(tools, "mcp_far_add", a=2, b=3)).is_error:
                        pass


async def test_a_server_from_the_package_registry_is_understood(tmp_path: Path) -> None:
    """`mcp-server-time`, which many people run."""
    home = tmp_path / "time"
    time = McpServer("time", (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"), home=home)
    async with offered(time, confinement=await find_confinement(hidden=[])) as tools:
        moment = {"source_timezone": "Europe/Berlin", "time": "16:30", "target_timezone": "Asia/Tokyo"}
        result = await run(tools, "mcp_time_convert_time", **moment)
        assert not result.is_error
        assert "Asia/Tokyo" in result.text
        assert (await run(tools, "mcp_time_get_current_time", timezone="Nowhere/Land")).is_error


@pytest.mark.parametrize(
    "server",
    [
        McpServer("gone", ("/no/such/program",), access=STDIO.access),
        McpServer("gone", (sys.executable, "-c", "raise SystemExit(1)"), access=STDIO.access),
        McpServer("gone", STDIO.command),  # that nothing holds
        McpServer("gone", url="http://127.0.0.1:9/mcp"),
    ],
)
async def test_a_server_that_cannot_be_reached_has_growing_pauses(server: McpServer) -> None:
    clock = ManualClock()
    link = McpLink(server, clock, None)
    holding = asyncio.create_task(link.hold())
    pauses = []
    for _ in range(3):
        with pytest.raises(ToolError, match="gone"):
            await link.tools()
        with pytest.raises(ToolError, match="tried again in") as told:
            await link.call("anything", {})
        pauses.append(str(told.value).split()[-2])
        clock.at_ms += 120_000
    holding.cancel()
    await asyncio.wait([holding])
    assert pauses == ["1", "2", "4"]


class TestConfined:
    """A server that looks around, in each of the confinements that work here."""

    @pytest.fixture(params=["bubblewrap", "landlock"])
    async def confinement(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Any:
        if request.param == "landlock":
            monkeypatch.setattr("agent.tools.mcp_confinement.OPTIONS", ())
        found = await find_confinement(hidden=[data_dir])
        if found is None or found.name != request.param:
            pytest.skip(f"no {request.param} here")
        return found

    @pytest.fixture
    def data_dir(self, tmp_path: Path) -> Path:
        (tmp_path / "data" / "mcp").mkdir(parents=True)
        (tmp_path / "data" / "secret").write_text("canary")
        return tmp_path / "data"

    @pytest.fixture
    def held(self, data_dir: Path) -> McpServer:
        home, readable = data_dir / "mcp" / "local", (ROOT, data_dir.parent)
        command = (sys.executable, "-m", "tests.parts.plain_mcp_server")
        return replace(STDIO, command=command, access=ServerAccess(readable=readable), home=home)

    async def test_it_reads_what_it_may_and_writes_in_its_own_folder(
        self, confinement: ServerConfinement, held: McpServer, data_dir: Path, tmp_path: Path
    ) -> None:
        """Our data directory is not to be seen, though it lies in what may be read."""
        (tmp_path / "shown").write_text("shown")
        (writable := tmp_path / "writable").mkdir()
        if confinement.name == "landlock":  # which takes nothing back of what it shows
            held = replace(held, access=replace(held.access, readable=(ROOT, tmp_path / "shown")))
        server = replace(held, access=replace(held.access, writable=(writable,)))
        async with offered(server, confinement=confinement) as tools:
            places = {
                "own": "note",
                "given": f"{writable}/note",
                "shown": f"{tmp_path}/shown",
                "ours": f"{data_dir}/secret",
                "system": "/usr/note",
                "shadow": "/etc/shadow",
                "home": f"{Path.home()}/note",
            }
            found = {name: (await run(tools, "mcp_local_touch", path=place)).text for name, place in places.items()}
        outcomes = {name: text.splitlines()[2] for name, text in found.items()}
        assert {name: outcomes[name] for name in ("own", "given", "shown")} == {
            "own": "written",
            "given": "written",
            "shown": "read: shown",
        }
        assert {outcomes[name] for name in ("ours", "system", "shadow", "home")} <= {"refused"}
        assert (held.home / "note").read_text() == (writable / "note").read_text() == "note"

    async def test_it_has_its_own_environment_and_ends_with_us(
        self, confinement: ServerConfinement, held: McpServer, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("OPENAI_API_KEY", "LOGNAME", "USER", "SHELL"):
            monkeypatch.setenv(name, "of the agent")
        if confinement.name == "landlock":
            held = replace(held, access=ServerAccess(readable=(ROOT,)))
        marked = replace(held, environment={**held.environment, "GIVEN": (mark := secrets.token_hex(16))})
        async with offered(marked, confinement=confinement) as tools:
            given = (await run(tools, "mcp_local_environment")).text
            assert f"GIVEN={mark}" in given
            assert "of the agent" not in given
            assert [line for line in given.splitlines() if line.startswith("HOME=")] != [f"HOME={Path.home()}"]
            assert len(await asyncio.to_thread(with_mark, mark)) >= 1
        await until(lambda: with_mark(mark) == [])

    async def test_it_cannot_look_into_the_process_that_started_it(
        self, confinement: ServerConfinement, held: McpServer, data_dir: Path
    ) -> None:
        """Where our keys are, of whatever user both are."""
        server = replace(held, access=ServerAccess(readable=(ROOT,)))
        async with offered(server, confinement=confinement) as tools:
            for name in ("environ", "maps", "root/etc/hostname"):
                found = (await run(tools, "mcp_local_touch", path=f"/proc/{os.getpid()}/{name}")).text
                assert found.splitlines()[2] == "refused", name

    async def test_what_its_command_names_can_be_read_and_not_written(
        self, confinement: ServerConfinement, held: McpServer, tmp_path: Path
    ) -> None:
        (tmp_path / "named").mkdir()
        (tmp_path / "named" / "note").write_text("named")
        command = (*held.command, f"--folder={tmp_path}/named", "/" + "x" * 5000)
        server = replace(held, command=command, access=ServerAccess(readable=(ROOT,)))
        async with offered(server, confinement=confinement) as tools:
            for name, outcome in (("note", "read: named"), ("new", "refused")):
                found = (await run(tools, "mcp_local_touch", path=f"{tmp_path}/named/{name}")).text
                assert found.splitlines()[2] == outcome

    async def test_it_is_kept_from_the_network_where_the_settings_say_so(
        self, confinement: ServerConfinement, held: McpServer, data_dir: Path
    ) -> None:
        alone = replace(held, access=ServerAccess(has_network=False, readable=(ROOT,)))
        open_to_all = replace(held, access=ServerAccess(readable=(ROOT,)))
        if confinement.name == "landlock":
            assert "cannot keep it from the network" in not_held(alone.access, confinement)
            return
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            outcomes = []
            for server in (alone, open_to_all):
                async with offered(server, confinement=confinement) as tools:
                    outcomes.append((await run(tools, "mcp_local_connect", port=port)).is_error)
        assert outcomes == [True, False]


def with_mark(mark: str) -> list[int]:
    return marked(f"GIVEN={mark}")


def test_names_fit_every_provider_and_stay_apart() -> None:
    assert tool_name("git", "status") == "mcp_git_status"
    names = {tool_name("s", tool) for tool in ("a.b", "a b", "a_b", "x" * 100, "x" * 101, "日本", "語")}
    assert len(names) == 7
    assert all(len(name) <= 64 for name in names)
