"""The tools' settings, from a line in a file to what the model may do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent.models.requests import ToolSpec
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.tool import Tool
from agent.tools.toolbox import open_toolbox
from gateway.clock import SystemClock
from gateway.config.loader import load_settings
from gateway.config.secrets import secrets_in_files
from gateway.config.show import as_table
from gateway.config.tools import McpSetting
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import WORKSPACES
from gateway.contracts.sessions import GrantRole
from gateway.ops.supervisor.plan import for_admin, for_agent, for_channels
from gateway.scrub import Scrubber
from gateway.store.foreign import ForeignDatabases
from tests.parts.tooling import call, check_schema, context, run, tool
from tests.parts.waiting import until

ROOT = Path(__file__).parents[2]
FILE = """
[tools]
policy = ["allow write for member in dm", "allow mcp_local_add", "deny file_delete"]
mcp = ["local=program --flag 'two words'", "docs=https://docs.example/mcp"]
mcp_secrets = ["docs.Authorization=Bearer of-the-docs", "local.API_KEY=of-the-program"]
mcp_access = ["local.read=/srv/docs", "local.write=/srv/out", "local.read=/srv/a b", "local.network=off"]
databases = ["shop=postgresql+asyncpg://me:of-the-shop@db.example/shop"]
[tools.web]
engine = "brave"
key = "of-the-search"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trivet.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def test_lines_are_taken_apart(file: Path) -> None:
    tools = load_settings(file, {}).settings.tools
    assert tools.mcp_servers == (
        McpSetting(
            "local",
            ("program", "--flag", "two words"),
            "",
            {"API_KEY": "of-the-program"},
            is_confined=True,
            has_network=False,
            readable=(Path("/srv/docs"), Path("/srv/a b")),
            writable=(Path("/srv/out"),),
        ),
        McpSetting("docs", (), "https://docs.example/mcp", {"Authorization": "Bearer of-the-docs"}),
    )
    assert tools.database_urls == {"shop": "postgresql+asyncpg://me:of-the-shop@db.example/shop"}
    assert [(line.word, line.subject, line.roles, line.place) for line in tools.policy_lines] == [
        ("allow", "write", ("member",), "dm"),
        ("allow", "mcp_local_add", (), ""),
        ("deny", "file_delete", (), ""),
    ]


def test_secrets_of_tools_are_known_to_the_scrubber_and_shown_to_nobody(file: Path) -> None:
    loaded = load_settings(file, {})
    for secret in ("of-the-docs", "of-the-program", "of-the-shop", "of-the-search"):
        assert secret in loaded.secrets
        assert secret not in as_table(loaded)
        assert secret not in repr(loaded.settings)
        assert secret not in repr(loaded.settings.tools.mcp_servers)


OF_OTHERS = {
    "mcpServers": {
        "Local_Files": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "files server", "--token", "of-the-argument"],
            "env": {"API_KEY": "${FILES_KEY}", "MODE": "${env:MODE:-production}"},
            "autoApprove": ["read"],
        },
        "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer of-the-docs"}},
        "old": {"command": "old", "disabled": True},
    }
}
"""As Claude, Cursor, VS Code and others write it."""


def with_servers(folder: Path, written: object) -> Path:
    (folder / "mcp.json").write_text(written if isinstance(written, str) else json.dumps(written))
    path = folder / "trivet.toml"
    path.write_text(f'[tools]\nmcp_file = "{folder}/mcp.json"\nmcp_access = ["local-files.network=off"]\n')
    return path


def test_servers_are_read_from_the_file_of_another_client(tmp_path: Path) -> None:
    environ = {"FILES_KEY": 'of-the-"program"'}
    loaded = load_settings(with_servers(tmp_path, OF_OTHERS), {})
    assert loaded.settings.tools.every_mcp_server(environ) == (
        McpSetting(
            "local-files",
            ("npx", "-y", "files server", "--token", "of-the-argument"),
            "",
            {"API_KEY": 'of-the-"program"', "MODE": "production"},
            has_network=False,
        ),
        McpSetting("docs", (), "https://docs.example/mcp", {"Authorization": "Bearer of-the-docs"}),
    )
    secrets = secrets_in_files(loaded.settings, environ)
    assert {'of-the-"program"', "of-the-docs", "of-the-argument"} <= {*secrets}
    assert "production" not in secrets


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('{"mcpServers": {\n"x": "of-the-secret"', "line 2"),
        ({}, "mcpServers is wrong: Field required"),
        ({"mcpServers": {"x": {"command": ["of-the-secret"]}}}, "mcpServers.x.command is wrong"),
        ({"mcpServers": {"x": {"type": "sse", "url": "https://x.example"}}}, "mcpServers.x.type is wrong"),
        ({"mcpServers": {"x": {}}}, "needs either a command or an http"),
        ({"mcpServers": {"x": {"command": "x", "url": "https://x.example"}}}, "needs either a command or an http"),
        ({"mcpServers": {"x": {"url": "ftp://x.example"}}}, "needs either a command or an http"),
        ({"mcpServers": {"1st": {"command": "x"}}}, "begins with no letter"),
        ({"mcpServers": {"a b": {"command": "x"}, "A_B": {"command": "y"}}}, "rename one of them"),
        ({"mcpServers": {"x": {"command": "${NOT_THERE}"}}}, "NOT_THERE, which is not set"),
    ],
)
def test_what_is_wrong_with_such_a_file_is_said_without_its_secrets(tmp_path: Path, written: object, says: str) -> None:
    tools = load_settings(with_servers(tmp_path, written), {}).settings.tools
    with pytest.raises(ConfigError, match=r"mcp\.json") as refused:
        tools.every_mcp_server({})
    assert says in str(refused.value)
    assert "of-the-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("policy", "allow"),
        ("policy", "permit shell"),
        ("policy", "allow shell for king"),
        ("policy", "allow shell in bed"),
        ("mcp", "no equals sign"),
        ("mcp", "Bad Name=x"),
        ("mcp", "time='unclosed"),
        ("mcp_secrets", "of-the-program"),
        ("mcp_access", "local.read=here"),
        ("mcp_access", "local.confined=on"),
        ("databases", "of-the-program"),
    ],
)
def test_a_wrong_line_is_told_with_what_was_expected(tmp_path: Path, key: str, line: str) -> None:
    path = tmp_path / "trivet.toml"
    path.write_text(f'[tools]\n{key} = ["{line}"]\n')
    with pytest.raises(ConfigError, match=f"line 2: tools.{key} must be a list of lines such as") as told:
        load_settings(path, {})
    assert "of-the-program" not in str(told.value)


def test_two_servers_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    path.write_text('[tools]\nmcp = ["a=x", "a=y"]\n')
    with pytest.raises(ConfigError, match=r"tools\.mcp"):
        load_settings(path, {})


def test_keys_of_tools_are_given_to_the_agent_alone() -> None:
    environ = {
        "TRIVET_TOOLS__WEB__KEY": "k",
        "TRIVET_TOOLS__MCP_SECRETS": "a.B=c",
        "TRIVET_TOOLS__DATABASES": "a=b",
        "TRIVET_TOOLS__MCP": "a=b",
    }
    assert set(for_channels(environ, {})) == {"TRIVET_TOOLS__MCP"}
    assert set(for_admin(environ, {}, channels=[])) == {"TRIVET_TOOLS__MCP"}
    assert set(for_agent(environ, {}, channels=[])) == set(environ)


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"TRIVET_TOOLS__WEB__ENGINE": "searxng"}, "tools.web.url"),
        ({"TRIVET_TOOLS__WEB__ENGINE": "brave"}, "tools.web.key"),
        ({"TRIVET_TOOLS__WEB__ENGINE": "tavily"}, "tools.web.key"),
    ],
)
async def test_an_engine_without_what_it_needs_is_a_configuration_error(
    tmp_path: Path, environ: dict[str, str], missing: str
) -> None:
    settings = load_settings(None, environ).settings.tools
    with pytest.raises(ConfigError, match=f"needs {missing}"):
        async with open_toolbox(
            settings,
            workspaces=Workspaces(tmp_path / WORKSPACES),
            own=(),
            databases=ForeignDatabases({}),
            scrubber=Scrubber(),
            clock=SystemClock(),
        ):
            pass


async def test_a_toolbox_holds_every_family_under_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    program = f"local={sys.executable} -m tests.parts.mcp_server"
    path.write_text(
        f'[tools]\npolicy = ["allow write for member in dm", "allow mcp_local_add", "deny file_delete"]\n'
        f'mcp = ["{program}"]\nmcp_secrets = ["local.PYTHONPATH={ROOT}"]\n'
        f'mcp_access = ["local.read={ROOT}"]\n'
    )
    settings = load_settings(path, {}).settings.tools
    async with open_toolbox(
        settings,
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=[tool("recall")],
        databases=ForeignDatabases({}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        await until(lambda: any(spec.name == "mcp_local_add" for spec in tools.specs))
        names = {spec.name for spec in tools.specs}
        assert {"recall", "read_more", "web_fetch", "file_undo", "file_patch"} <= names
        assert len({name for name in names if name.startswith("file_")}) == 12
        stranger = {spec.name for spec in tools.specs_for(context(role=GrantRole.GUEST))}
        assert stranger == {
            *("recall", "read_more", "send_file", "mcp_local_add"),
            *("file_read", "file_list", "file_tree", "file_info", "file_search"),
        }
        member = context(role=GrantRole.MEMBER)
        calls = [call("file_write", path="a", content="x"), call("file_delete", path="a")]
        assert [result.is_error for result in await tools.run_round(member, calls)] == [False, True]
        assert "\n3\n" in (await run(tools, "mcp_local_add", a=1, b=2)).text


async def test_a_server_that_nothing_would_hold_is_not_started_and_said_to_be_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: only where the settings let it go."""
    monkeypatch.setattr("agent.tools.mcp_confinement.OPTIONS", ())
    monkeypatch.setattr("agent.tools.exec.restrictions.landlock_version", lambda: 0)
    path = tmp_path / "trivet.toml"
    program = f"{sys.executable} -m tests.parts.mcp_server"
    path.write_text(
        f'[tools]\nmcp = ["held={program}", "free={program}"]\nmcp_access = ["free.confined=off"]\n'
        f'mcp_secrets = ["free.PYTHONPATH={ROOT}", "held.PYTHONPATH={ROOT}"]\n'
    )
    async with open_toolbox(
        load_settings(path, {}).settings.tools,
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=(),
        databases=ForeignDatabases({}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        await until(lambda: any(spec.name == "mcp_free_add" for spec in tools.specs))
        assert not any(spec.name.startswith("mcp_held") for spec in tools.specs)
        (off,) = tools.overview(context())["mcp held"]
        assert off.startswith("mcp_held (off: neither bubblewrap nor Landlock works here")


async def test_a_plug_in_s_tool_with_a_broken_schema_is_left_out(tmp_path: Path) -> None:
    broken = Tool(ToolSpec("bad", "", {"type": "nonsense"}), "test", Risk.READ, tool("fine").run)
    async with open_toolbox(
        load_settings(None, {}).settings.tools,
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=(),
        plugins=[broken, tool("fine")],
        databases=ForeignDatabases({}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        assert {"bad", "fine"} & tools.names == {"fine"}


async def test_every_schema_is_of_a_kind_that_all_providers_take(tmp_path: Path) -> None:
    """An object on top without alternatives, and a type for every property."""
    async with open_toolbox(
        load_settings(None, {}).settings.tools,
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=(),
        databases=ForeignDatabases({"shop": "sqlite+aiosqlite:///shop.db"}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        for spec in tools.specs:
            check_schema(json.dumps(spec.schema))
            assert spec.schema["type"] == "object"
            assert set(spec.schema) <= {"type", "properties", "required"}, spec.name
            assert all("type" in part for part in spec.schema["properties"].values()), spec.name
            assert set(spec.schema.get("required", ())) <= set(spec.schema["properties"])
