"""send_file: what is captured, under which name, as what, and how much of it."""

from __future__ import annotations

import json
import posixpath
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import FILE_NAME_BYTES_MAX, FILE_NAME_CHARS_MAX, SENT_BYTES_MAX, SENT_FILE_BYTES_MAX, SENT_FILES_MAX
from agent.models.requests import RequestedCall
from agent.tools.files.send_file import media_type, safe_name, sending_tool
from agent.tools.files.workspace import Workspace, Workspaces
from agent.tools.registry import ToolRegistry
from agent.tools.tool import Enclosures, ToolResult
from gateway.contracts.ids import SessionKey
from gateway.limits import SCRUBBED_FILE_BYTES_MAX
from gateway.scrub import Scrubber
from tests.parts.tooling import context, file_threads, registry

KEY = SessionKey.parse("telegram:1")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


@pytest.fixture
def workspace(workspaces: Workspaces) -> Workspace:
    return workspaces.of(KEY)


@pytest.fixture
def tools(workspaces: Workspaces) -> ToolRegistry:
    return registry(sending_tool(workspaces, Scrubber(), file_threads()))


async def send(
    tools: ToolRegistry, enclosures: Enclosures | None, path: str, *, key: str = "telegram:1", caption: str = ""
) -> ToolResult:
    asked = RequestedCall("c1", "send_file", json.dumps({"path": path, "caption": caption}))
    (result,) = await tools.run_round(replace(context(key), enclosures=enclosures), [asked])
    return result


async def test_a_later_edit_does_not_change_what_is_sent(tools: ToolRegistry, workspace: Workspace) -> None:
    """Captured when the model asks."""
    enclosures = Enclosures()
    workspace.write("out/report.csv", b"sun,1\n")
    assert not (await send(tools, enclosures, "out/report.csv", caption=" two\nlines ")).is_error
    workspace.write("out/report.csv", b"moon,2\n")
    (file,) = enclosures.files
    assert (file.name, file.media_type, file.size_bytes, file.caption) == ("report.csv", "text/csv", 6, "two lines")
    assert [each.content for each in enclosures.contents("r")] == [b"sun,1\n"]


async def test_only_files_of_the_own_workspace_are_sent(
    tools: ToolRegistry, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("outside")
    (workspace.files / "link").symlink_to(tmp_path / "secret")
    workspace.write("mine.txt", b"mine")
    enclosures = Enclosures()
    for path in ("../../secret", "link", "/etc/passwd", "", "nowhere"):
        assert (await send(tools, enclosures, path)).is_error
    assert (await send(tools, enclosures, "mine.txt", key="telegram:2")).text == "mine.txt does not exist"
    assert enclosures.files == ()


async def test_a_text_leaves_its_secrets_behind_and_a_binary_is_said_to_be_unread(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    """In any encoding whose letters are ASCII; the rest of the bytes stays as it is."""
    workspace.write("utf8.txt", f"é {TOKEN} 世\r\n".encode())
    workspace.write("latin.txt", f"é {TOKEN}\n".encode("latin-1"))
    workspace.write("picture.png", PNG)
    enclosures = Enclosures()
    assert "placeholders" in (await send(tools, enclosures, "utf8.txt")).text
    assert "placeholders" in (await send(tools, enclosures, "latin.txt")).text
    assert "nobody looked for secrets" in (await send(tools, enclosures, "picture.png")).text
    utf8, latin, picture = (each.content for each in enclosures.contents("r"))
    assert TOKEN.encode() not in utf8 + latin
    assert utf8.startswith("é [redacted:".encode())
    assert utf8.endswith(" 世\r\n".encode())
    assert latin.startswith("é [redacted:".encode("latin-1"))
    assert picture == PNG


async def test_a_secret_in_a_name_or_a_caption_is_removed(tools: ToolRegistry, workspace: Workspace) -> None:
    workspace.write(f"{TOKEN}.txt", b"x")
    enclosures = Enclosures()
    result = await send(tools, enclosures, f"{TOKEN}.txt", caption=f"with {TOKEN}")
    assert TOKEN not in repr((enclosures.files, result))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty", b"", "is empty"),
        ("large", b"\0" * (SENT_FILE_BYTES_MAX + 1), "more than 10000000 bytes"),
        ("long.txt", b"x" * (SCRUBBED_FILE_BYTES_MAX + 1), "in parts"),
    ],
)
async def test_what_no_platform_takes_is_told_to_the_model(
    tools: ToolRegistry, workspace: Workspace, name: str, content: bytes, complaint: str
) -> None:
    (workspace.files / name).write_bytes(content)
    result = await send(tools, Enclosures(), name)
    assert result.is_error
    assert complaint in result.text


async def test_an_answer_takes_a_few_files_and_so_many_bytes(tools: ToolRegistry, workspace: Workspace) -> None:
    workspace.write("a.txt", b"a")
    few = Enclosures()
    results = [await send(tools, few, "a.txt") for _ in range(SENT_FILES_MAX + 1)]
    assert [result.is_error for result in results] == [False] * SENT_FILES_MAX + [True]
    (workspace.files / "big").write_bytes(b"\0" * SENT_FILE_BYTES_MAX)
    large = Enclosures()
    fitting = SENT_BYTES_MAX // SENT_FILE_BYTES_MAX
    results = [await send(tools, large, "big") for _ in range(fitting + 1)]
    assert [result.is_error for result in results] == [False] * fitting + [True]


async def test_where_no_answer_follows_nothing_is_sent(tools: ToolRegistry, workspace: Workspace) -> None:
    workspace.write("a.txt", b"a")
    assert (await send(tools, None, "a.txt")).is_error


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/Übersicht 2026.pdf", "Übersicht 2026.pdf"),
        ("..\\..\\evil.exe", "evil.exe"),
        ("photo\u202egpj.exe", "photogpj.exe"),
        ("a\u200bb\x07c\r\n.txt", "abc.txt"),
        ('what "is": this?.txt', "what _is__ this_.txt"),
        (".env", "env"),
        ("...", "file"),
        ("x" * 300 + ".tar.gz", "x" * (FILE_NAME_CHARS_MAX - 3) + ".gz"),
        ("报告" * 60 + ".pdf", "报告" * 32 + "报.pdf"),
        ("name." + "e" * 200, "name." + "e" * (FILE_NAME_CHARS_MAX - 5)),
    ],
)
def test_a_name_deceives_nobody(path: str, name: str) -> None:
    assert safe_name(path) == name


@given(st.text(max_size=300))
def test_a_safe_name_stays_itself_and_fits_everywhere(path: str) -> None:
    name = safe_name(path)
    assert 0 < len(name) <= FILE_NAME_CHARS_MAX
    assert len(name.encode()) <= FILE_NAME_BYTES_MAX
    assert name == posixpath.basename(name)
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs"} for char in name)
    assert not set(name) & set('<>:"/\\|?*')


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.png", PNG, "image/png"),
        ("a.txt", PNG, "image/png"),
        ("a.png", b"just words", "text/plain"),
        ("a.csv", b"a,b\n", "text/csv"),
        ("a.md", b"# a\n", "text/markdown"),
        ("a.json", b"{}", "application/json"),
        ("a.exe", b"words", "text/plain"),
        ("a", b"\x00\x01\xff" * 9, "application/octet-stream"),
        ("a.pdf", b"%PDF-1.7\n\x00\xff", "application/pdf"),
    ],
)
def test_a_file_is_what_its_content_says(name: str, content: bytes, kind: str) -> None:
    assert media_type(name, content) == kind


@given(st.binary(min_size=1, max_size=200), st.text(max_size=20))
def test_any_content_is_something(content: bytes, name: str) -> None:
    assert "/" in media_type(name, content)
