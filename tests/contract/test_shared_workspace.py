"""One workspace and several processes: a conversation's own tools, and those of its sub-agents."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from agent.subagents.protocol import ModelCall
from agent.tools.files.journal import Journal
from agent.tools.files.tools import WRITING
from agent.tools.files.workspace import FolderLock, Workspaces
from agent.tools.toolbox import offered_files
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey, folder_name
from tests.parts.child_talk import HERE, a_call, an_init, child_talk
from tests.parts.tooling import call, context, file_threads, registry

KEY: Final = SessionKey.parse("telegram:1")
EDITS: Final = 8
HOLDING: Final = """
import pathlib, sys, time
from agent.tools.files.workspace import FolderLock
with FolderLock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


async def _edit_in_a_child(home: Path, name: str) -> None:
    async with child_talk() as child:
        asked = await child.begin(replace(an_init(tools=HERE, home=home), rounds_max=EDITS))
        for number in range(EDITS):
            await child.answer(asked, a_call("file_edit", path="a.txt", old="end", new=f"{name}{number}\nend"))
            asked = await child.hear(ModelCall)
            assert not asked.messages[-1].is_error


async def test_no_change_is_lost_and_all_can_be_taken_back(tmp_path: Path) -> None:
    """Two sub-agents and their parent change one file at the same time."""
    workspaces, home = Workspaces(tmp_path), tmp_path / folder_name(KEY)
    workspace, tools = workspaces.of(KEY), registry(*offered_files(WRITING, workspaces, file_threads()))
    workspace.write("a.txt", b"end")

    async def edit_here() -> None:
        for number in range(EDITS):
            edit = call("file_edit", path="a.txt", old="end", new=f"p{number}\nend")
            (result,) = await tools.run_round(context(), [edit])
            assert not result.is_error

    await asyncio.gather(_edit_in_a_child(home, "x"), _edit_in_a_child(home, "y"), edit_here())
    lines = workspace.read("a.txt").decode().split("\n")
    assert sorted(lines) == sorted(["end", *(f"{name}{number}" for name in "xyp" for number in range(EDITS))])
    for _ in range(3 * EDITS):
        Journal(workspace).undo()
    assert workspace.read("a.txt") == b"end"
    with pytest.raises(ToolError, match="nothing to take back"):
        Journal(workspace).undo()


async def test_a_process_that_dies_in_the_middle_of_a_change_holds_nobody_up(tmp_path: Path) -> None:
    async with child_talk(program=("-c", HOLDING, str(tmp_path))) as other:
        assert other.process.stdout is not None
        assert await other.process.stdout.readline() == b"held\n"
        waiting = asyncio.create_task(asyncio.to_thread(_take_once, FolderLock(tmp_path)))
        assert not _is_free(tmp_path)
        other.process.kill()
        await waiting


def test_one_that_never_comes_to_an_end_is_an_error_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.limits.FOLDER_LOCK_S", 0.0)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    lock = FolderLock(tmp_path)
    with pytest.raises(ToolError, match="somebody else is changing these files"):
        _take_once(lock)
    os.close(holder)
    _take_once(lock)


def test_who_has_the_lock_may_take_it_again_and_other_threads_wait(tmp_path: Path) -> None:
    lock, order = FolderLock(tmp_path), []

    def other() -> None:
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with lock:
        with lock:
            thread.start()
        assert not _is_free(tmp_path)
        order.append("mine")
    thread.join()
    assert order == ["mine", "other"]
    assert _is_free(tmp_path)


def test_a_process_that_is_being_started_keeps_no_lock(tmp_path: Path) -> None:
    """It has a copy of every descriptor until it becomes what it will be."""
    lock = FolderLock(tmp_path)
    with lock:
        copy = os.dup(lock._descriptor)
    assert _is_free(tmp_path)
    os.close(copy)


def _take_once(lock: FolderLock) -> None:
    with lock:
        pass


def _is_free(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
