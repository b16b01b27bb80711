"""The file tools, on a real folder."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from agent.limits import (
    FILE_BYTES_MAX,
    JOURNAL_STEPS_MAX,
    PATCH_BYTES_MAX,
    PATCH_FILES_MAX,
    PATCH_LINES_MAX,
    READ_LINES_MAX,
)
from agent.tools.files.quota import DiskUsage
from agent.tools.files.tools import READING, WRITING
from agent.tools.files.workspace import Workspace, Workspaces
from agent.tools.registry import ToolRegistry
from agent.tools.toolbox import offered_files
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey, folder_name
from tests.parts.tooling import call, context, file_threads, registry, run
from tests.scrubbing import draw

KEY = SessionKey.parse("telegram:1")


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


@pytest.fixture
def tools(workspaces: Workspaces) -> ToolRegistry:
    return registry(*offered_files((*READING, *WRITING), workspaces, file_threads()))


@pytest.fixture
def workspace(workspaces: Workspaces) -> Workspace:
    return workspaces.of(KEY)


async def test_what_is_written_can_be_read_with_line_numbers(tools: ToolRegistry) -> None:
    assert not (await run(tools, "file_write", path="notes/a.txt", content="one\ntwo\nthree\n")).is_error
    assert (await run(tools, "file_read", path="./notes//a.txt")).text == "     1  one\n     2  two\n     3  three"
    assert (await run(tools, "file_read", path="/workspace/notes/a.txt", first_line=2, lines=1)).text == "     2  two"
    assert (await run(tools, "file_read", path="notes/a.txt", first_line=9)).text == "notes/a.txt has 3 lines"


async def test_each_conversation_has_files_of_its_own(tools: ToolRegistry) -> None:
    await run(tools, "file_write", key="telegram:1", path="a.txt", content="mine")
    for other in ("telegram:2", "telegram:1/-100", "slack:1"):
        assert (await run(tools, "file_read", key=other, path="a.txt")).text == "a.txt does not exist"
        assert (await run(tools, "file_search", key=other, glob="*")).text == "Nothing matches."


def test_folder_names_are_readable_unique_and_fit_any_disk() -> None:
    keys = ["telegram:1", "telegram:1/-100", "slack:U1", "slack:u1", "discord:1/" + "9" * 128, "telegram:/-1"]
    names = {folder_name(SessionKey.parse(key)) for key in keys}
    assert len({name.lower() for name in names}) == len(keys)
    assert all(len(name) < 100 and name.replace("-", "").isalnum() for name in names)


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "/etc/passwd", "/workspace/../x", "/workspacex", "link/x", "deep/up/x", "abs", "loop", "\0"],
)
@pytest.mark.parametrize("name", ["file_read", "file_write", "file_list", "file_tree", "file_search"])
async def test_no_path_leads_out_of_the_workspace(
    tools: ToolRegistry, workspace: Workspace, tmp_path: Path, path: str, name: str
) -> None:
    (tmp_path / "workspaces" / "x").write_text("outside")
    (tmp_path / "x").write_text("outside")
    (workspace.files / "a").mkdir()
    (workspace.files / "link").symlink_to(tmp_path)
    (workspace.files / "deep").mkdir()
    (workspace.files / "deep" / "up").symlink_to("../..")
    (workspace.files / "abs").symlink_to(tmp_path / "x")
    (workspace.files / "loop").symlink_to("loop")
    arguments = {"file_write": {"content": "mine"}, "file_search": {"text": "outside"}}.get(name, {})
    result = await run(tools, name, path=path, **arguments)
    assert result.is_error
    assert "outside of the workspace" in result.text or "too many" in result.text or "NUL" in result.text
    assert (tmp_path / "x").read_text() == "outside"


async def test_links_inside_the_workspace_are_followed(tools: ToolRegistry, workspace: Workspace) -> None:
    """Relative ones, and absolute ones as a sandbox makes them."""
    (workspace.files / "real").mkdir()
    (workspace.files / "near").symlink_to("real")
    (workspace.files / "far").symlink_to("/workspace/real")
    assert not (await run(tools, "file_write", path="near/a.txt", content="hello")).is_error
    assert "hello" in (await run(tools, "file_read", path="far/../far/a.txt")).text
    await run(tools, "file_delete", path="near")
    assert "hello" in (await run(tools, "file_read", path="real/a.txt")).text


async def test_pipes_folders_and_second_names_of_a_file_are_not_read(
    tools: ToolRegistry, workspace: Workspace, tmp_path: Path
) -> None:
    """A pipe would hang for ever, a hard link may lead outside."""
    os.mkfifo(workspace.files / "pipe")
    (tmp_path / "outside").write_text("outside")
    (workspace.files / "twin").hardlink_to(tmp_path / "outside")
    (workspace.files / "folder").mkdir()
    for path, reason in (("pipe", "no plain file"), ("twin", "hard links"), ("folder", "is a folder")):
        for name in ("file_read", "file_write"):
            arguments = {"content": "x"} if name == "file_write" else {}
            assert reason in (await run(tools, name, path=path, **arguments)).text
    assert (tmp_path / "outside").read_text() == "outside"


async def test_a_file_beyond_the_limit_is_refused_by_name(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "big").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    for name, arguments in (("file_read", {}), ("file_write", {"content": "x"}), ("file_delete", {})):
        result = await run(tools, name, path="big", **arguments)
        assert str(FILE_BYTES_MAX) in result.text
    assert (workspace.files / "big").stat().st_size == FILE_BYTES_MAX + 1


async def test_what_is_no_text_is_not_shown(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "picture").write_bytes(b"\x89PNG\xff\xfe")
    assert (await run(tools, "file_read", path="picture")).text == "picture is no text (6 bytes)"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("file_write", {"path": "env", "content": "KEY=[redacted:openai#a1b2]"}),
        ("file_edit", {"path": "env", "old": "KEY", "new": "[redacted:text#0000]"}),
        ("file_patch", {"patch": "--- env\n+++ env\n@@ -1 +1 @@\n-KEY=real\n+KEY=[redacted:openai#a1b2]\n"}),
    ],
)
async def test_a_secrets_stand_in_is_never_written(
    tools: ToolRegistry, workspace: Workspace, name: str, arguments: dict[str, str]
) -> None:
    """It would replace the real secret that the model was not shown."""
    (workspace.files / "env").write_text("KEY=real\n")
    result = await run(tools, name, **arguments)
    assert result.is_error
    assert "stands for a secret" in result.text
    assert (workspace.files / "env").read_text() == "KEY=real\n"


async def test_an_edit_needs_one_place_and_no_more(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "a").write_text("x = 1\ny = 1\n")
    assert "is not in a" in (await run(tools, "file_edit", path="a", old="z", new="")).text
    assert "2 times" in (await run(tools, "file_edit", path="a", old="= 1", new="= 2")).text
    await run(tools, "file_edit", path="a", old="x = 1", new="x = 2")
    await run(tools, "file_edit", path="a", old="=", new=":", all=True)
    assert (workspace.files / "a").read_text() == "x : 2\ny : 1\n"


async def test_an_edit_keeps_windows_line_ends(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await run(tools, "file_edit", path="a", old="one\ntwo", new="1\n2")
    assert (workspace.files / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_a_patch_of_several_files_is_applied_whole_or_not_at_all(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    (workspace.files / "a").write_text("one\n")
    (workspace.files / "b").write_text("two\n")
    good = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"
    new = "--- /dev/null\n+++ b/new/c\n@@ -0,0 +1 @@\n+three\n"
    bad = "--- a/zzz\n+++ b/zzz\n@@ -1 +1 @@\n-no\n+yes\n"
    assert (await run(tools, "file_patch", patch=good + new + bad)).is_error
    assert (workspace.files / "a").read_text() == "one\n"
    assert (await run(tools, "file_patch", patch=good + new)).text == "Patched a, b, new/c."
    assert (workspace.files / "a").read_text() == "1\n"
    assert not (workspace.files / "b").exists()
    await run(tools, "file_undo")
    assert (workspace.files / "b").read_text() == "two\n"
    assert not (workspace.files / "new" / "c").exists()


async def test_undo_and_redo_go_through_every_kind_of_change(tools: ToolRegistry, workspace: Workspace) -> None:
    def everything() -> dict[str, str]:
        files = (path for path in workspace.files.rglob("*") if path.is_file())
        return {str(path.relative_to(workspace.files)): path.read_text() for path in files}

    states = [everything()]
    for name, arguments in (
        ("file_write", {"path": "a", "content": "one\n"}),
        ("file_write", {"path": "a", "content": "two\n"}),
        ("file_edit", {"path": "a", "old": "two", "new": "2"}),
        ("file_rename", {"path": "a", "to": "sub/b"}),
        ("file_patch", {"patch": "--- sub/b\n+++ sub/b\n@@ -1 +1,2 @@\n 2\n+3\n"}),
        ("file_delete", {"path": "sub/b"}),
    ):
        assert not (await run(tools, name, **arguments)).is_error
        states.append(everything())
    for state in reversed(states[:-1]):
        assert not (await run(tools, "file_undo")).is_error
        assert everything() == state
    assert (await run(tools, "file_undo")).text == "there is nothing to take back"
    for state in states[1:]:
        assert not (await run(tools, "file_redo")).is_error
        assert everything() == state
    assert (await run(tools, "file_redo")).text == "nothing was taken back"


async def test_undo_does_not_overwrite_what_somebody_else_changed(tools: ToolRegistry, workspace: Workspace) -> None:
    await run(tools, "file_write", path="a", content="one")
    (workspace.files / "a").write_text("the user's own words")
    assert "changed it since" in (await run(tools, "file_undo")).text
    assert (workspace.files / "a").read_text() == "the user's own words"


async def test_a_new_change_ends_what_could_be_made_again(tools: ToolRegistry) -> None:
    await run(tools, "file_write", path="a", content="one")
    await run(tools, "file_undo")
    await run(tools, "file_write", path="b", content="two")
    assert (await run(tools, "file_redo")).text == "nothing was taken back"


async def test_the_journal_is_bounded_and_out_of_reach(tools: ToolRegistry, workspace: Workspace) -> None:
    for number in range(JOURNAL_STEPS_MAX + 5):
        await run(tools, "file_write", path="a", content=f"version {number}")
    undone = 0
    while not (await run(tools, "file_undo")).is_error:
        undone += 1
    assert undone == JOURNAL_STEPS_MAX
    assert len(list((workspace.journal / "blobs").iterdir())) <= JOURNAL_STEPS_MAX + 1
    assert "journal" not in (await run(tools, "file_tree")).text


async def test_edits_of_one_round_on_one_file_are_all_kept(tools: ToolRegistry, workspace: Workspace) -> None:
    """Under any spelling of its path."""
    (workspace.files / "a").write_text("".join(f"<{number}>" for number in range(8)))
    spellings = ["a", "./a", "/workspace/a", "b/../a"]
    (workspace.files / "b").mkdir()
    calls = [call("file_edit", path=spellings[number % 4], old=f"<{number}>", new=f"[{number}]") for number in range(8)]
    results = await tools.run_round(context(), calls)
    assert not any(result.is_error for result in results)
    assert (workspace.files / "a").read_text() == "".join(f"[{number}]" for number in range(8))


async def test_a_rename_overwrites_nothing_and_moves_no_folder_into_itself(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    (workspace.files / "a").mkdir()
    (workspace.files / "b").write_text("b")
    assert "exists already" in (await run(tools, "file_rename", path="a", to="b")).text
    assert "into itself" in (await run(tools, "file_rename", path="a", to="a/b")).text
    assert "does not exist" in (await run(tools, "file_rename", path="c", to="d")).text
    assert (await run(tools, "file_rename", path=".", to="d")).is_error


async def test_lists_trees_and_searches_show_what_is_there(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "src" / "deep").mkdir(parents=True)
    (workspace.files / "src" / "main.py").write_text("import os\nprint('Hello')\n")
    (workspace.files / "src" / "deep" / "b.py").write_text("hello = 1\n")
    (workspace.files / "readme.md").write_text("hello\n")
    (workspace.files / "link").symlink_to("src")
    assert (await run(tools, "file_tree")).text == "link\nreadme.md\nsrc/\n  deep/\n    b.py\n  main.py"
    assert (await run(tools, "file_tree", path="src", depth=1)).text == "deep/\nmain.py"
    assert (await run(tools, "file_search", glob="*.py")).text == "src/deep/b.py\nsrc/main.py"
    assert (await run(tools, "file_search", glob="src/**/*.py", text="hello")).text == "src/deep/b.py:1: hello = 1"
    everywhere = (await run(tools, "file_search", text="HELLO", ignore_case=True)).text
    assert everywhere.splitlines() == [
        "readme.md:1: hello",
        "src/deep/b.py:1: hello = 1",
        "src/main.py:2: print('Hello')",
    ]
    assert (await run(tools, "file_info", path="src/main.py")).text.startswith("src/main.py  25 bytes  ")
    assert (await run(tools, "file_info", path="link")).text.startswith("link  link  ")
    assert (await run(tools, "file_list", path="src")).text.startswith("src/deep/  folder")
    assert (await run(tools, "file_search")).is_error


async def test_a_failed_write_leaves_the_old_file_and_no_rest(tools: ToolRegistry, workspace: Workspace) -> None:
    (workspace.files / "a").mkdir()
    assert (await run(tools, "file_write", path="a", content="x")).is_error
    assert (await run(tools, "file_write", path="a/b/../../a", content="x")).is_error
    assert [path.name for path in workspace.files.rglob("*") if path.is_file()] == []


async def test_a_file_keeps_its_mode(tools: ToolRegistry, workspace: Workspace) -> None:
    script = workspace.files / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    await run(tools, "file_edit", path="run.sh", old="sh\n", new="bash\n")
    assert script.stat().st_mode & 0o777 == 0o755


async def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(workspace: Workspace, tmp_path: Path) -> None:
    """A command in the sandbox may change a folder into a link at any moment."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("outside")
    (tmp_path / "outside" / "b").write_text("outside")
    (workspace.files / "real").mkdir()
    (workspace.files / "real" / "a").write_text("inside")
    (workspace.files / "link").symlink_to(tmp_path / "outside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for name in ("real", "link"):
                (workspace.files / name).rename(workspace.files / "door")
                (workspace.files / "door").rename(workspace.files / name)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(3_000):
            with suppress(ToolError):
                seen.add(workspace.read("door/a"))
            with suppress(ToolError):
                workspace.delete("door/b")
    finally:
        over.set()
        swapping.join()
    assert seen <= {b"inside"}
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["a", "b"]


async def test_undo_takes_back_the_folders_that_a_change_brought_about(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    """Left behind, they would stand in the way of the next undo."""
    await run(tools, "file_write", path="x/y/a", content="one")
    await run(tools, "file_undo")
    assert list(workspace.files.iterdir()) == []
    await run(tools, "file_redo")
    (workspace.files / "x" / "mine").write_text("the user's own")
    await run(tools, "file_undo")
    assert [path.name for path in (workspace.files / "x").iterdir()] == ["mine"]


class TestQuota:
    """By what the disk gives; what shrinks or goes is always welcome."""

    async def test_a_full_workspace_takes_nothing_more_until_something_goes(self, tmp_path: Path) -> None:
        workspaces = Workspaces(tmp_path, quota=DiskUsage(200_000, 100))
        tools, workspace = registry(*offered_files(WRITING, workspaces, file_threads())), workspaces.of(KEY)
        (workspace.files / "big").write_bytes(os.urandom(190_000))
        refused = await run(tools, "file_write", path="a.txt", content="x" * 50_000)
        assert refused.is_error
        assert "the workspace is full" in refused.text
        assert not (workspace.files / "a.txt").exists()
        assert not (await run(tools, "file_write", path="b.txt", content="x")).is_error
        assert not (await run(tools, "file_delete", path="big")).is_error
        assert not (await run(tools, "file_write", path="a.txt", content="x" * 50_000)).is_error

    async def test_so_many_files_are_enough(self, tmp_path: Path) -> None:
        tools = registry(*offered_files(WRITING, Workspaces(tmp_path, quota=DiskUsage(10**9, 3)), file_threads()))
        for number in range(3):
            assert not (await run(tools, "file_write", path=f"{number}", content="x")).is_error
        assert (await run(tools, "file_write", path="3", content="x")).is_error
        assert not (await run(tools, "file_write", path="2", content="longer")).is_error


async def test_no_page_and_no_search_shows_a_piece_of_a_private_key(tools: ToolRegistry, workspace: Workspace) -> None:
    """A command may have made one; its inner lines have no looks to be told by."""
    key = draw("-----BEGIN PRIVATE KEY-----\n<base64:64>\n<base64:64>\n<base64:64>\n-----END PRIVATE KEY-----", seed=5)
    material = key.split("\n")[1:-1]
    (workspace.files / "key.pem").write_text(f"first\n{key}\nlast\n")
    for first_line in range(1, 8):
        shown = (await run(tools, "file_read", path="key.pem", first_line=first_line, lines=2)).text
        assert not any(line[:12] in shown for line in material), shown
    assert (await run(tools, "file_read", path="key.pem", first_line=7)).text == "     7  last"
    for line in material:
        assert (await run(tools, "file_search", text=line[20:28])).text == "Nothing matches."


async def test_an_edit_that_would_make_a_file_too_large_is_refused_before_it_is_made(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    workspace.write("a", b"x" * FILE_BYTES_MAX)
    tracemalloc.start()
    try:
        refused = await run(tools, "file_edit", path="a", old="x", new="y" * 1_000, all=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.is_error
    assert "at most" in refused.text
    assert peak < 10 * FILE_BYTES_MAX
    assert workspace.read("a") == b"x" * FILE_BYTES_MAX


async def test_a_search_through_a_workspace_of_line_ends_takes_no_time(
    tools: ToolRegistry, workspace: Workspace
) -> None:
    """Each file of two million lines held a thread for four seconds."""
    for number in range(4):
        workspace.write(f"{number:02}", b"\n" * (FILE_BYTES_MAX - 2) + b"Z\n")
    began_s = time.process_time()
    found = (await run(tools, "file_search", text="z", ignore_case=True)).text
    assert time.process_time() - began_s < 4
    assert found.startswith(f"00:{FILE_BYTES_MAX - 1}: Z\n01:")
    read = (await run(tools, "file_read", path="00", first_line=7)).text
    assert f"more lines: read on with first_line={READ_LINES_MAX + 7}" in read


@pytest.mark.parametrize("ignores_case", [True, False])
async def test_hits_carry_the_numbers_of_their_lines(
    tools: ToolRegistry, workspace: Workspace, ignores_case: bool
) -> None:
    """Also where a letter in one case is two, and several hits are in one line."""
    lines = ["Straße", "", "STRASSE strasse", "ß", "aa", "Aaa", "", "x\r", "Ẑß ss"]
    workspace.write("a", "\n".join(lines).encode())
    for text in ("ß", "ss", "a", "Aa", "x", "straße"):
        fold = str.casefold if ignores_case else str
        wanted = [f"a:{at}: {line.strip()}" for at, line in enumerate(lines, 1) if fold(text) in fold(line)]
        found = (await run(tools, "file_search", text=text, ignore_case=ignores_case)).text
        assert found == ("\n".join(wanted) or "Nothing matches.")
    assert "single lines" in (await run(tools, "file_search", text="a\nA")).text


class TestAPatchThatIsTooMuch:
    async def test_a_file_is_named_once(self, tools: ToolRegistry, workspace: Workspace) -> None:
        """Eighteen hundred names of one file held 7 GB."""
        workspace.write("a", b"x\n" * (FILE_BYTES_MAX // 2))
        for name in ("a", "./a"):
            patch = f"--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- {name}\n+++ {name}\n@@ -1 +1 @@\n-x\n+y\n"
            assert "several times" in (await run(tools, "file_patch", patch=patch)).text
        many = "".join(f"--- /dev/null\n+++ f{at}\n@@ -0,0 +1 @@\n+y\n" for at in range(PATCH_FILES_MAX + 1))
        assert "at most" in (await run(tools, "file_patch", patch=many)).text
        assert [path.name for path in workspace.files.iterdir()] == ["a"]

    async def test_large_files_are_patched_in_parts(self, tools: ToolRegistry, workspace: Workspace) -> None:
        count = PATCH_BYTES_MAX // (2 * FILE_BYTES_MAX) + 1
        line = b"x" * 1_000 + b"\n"
        for at in range(count):
            workspace.write(f"{at}", line * (FILE_BYTES_MAX // len(line)))
        patch = "".join(f"--- {at}\n+++ {at}\n@@ -1 +1,2 @@\n+y\n" for at in range(count))
        assert "in parts" in (await run(tools, "file_patch", patch=patch)).text

    async def test_hunks_that_stand_nowhere_are_not_looked_for_for_ever(
        self, tools: ToolRegistry, workspace: Workspace
    ) -> None:
        workspace.write("a", b"\n" * PATCH_LINES_MAX)
        nowhere = "--- a\n+++ a\n" + "".join(f"@@ -{at} +1 @@\n-\n-\n+\n+\n" for at in range(1_000_000, 1_000_200))
        began_s = time.process_time()
        assert "line numbers" in (await run(tools, "file_patch", patch=nowhere)).text
        assert time.process_time() - began_s < 5
        workspace.write("a", b"\n" * (PATCH_LINES_MAX + 1))
        assert "too long" in (await run(tools, "file_patch", patch=nowhere)).text
