"""What files may take: of one owner in all places, of all owners, and of the disk; by tools, programs and files that
people send."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.features.attachments.inbox import Inbox, KeptFile, RefusedFile
from agent.limits import ALL_REFUSED_AFTER_S, OWNER_MEASURED_EVERY_S, OWNER_REFUSED_AFTER_S
from agent.tools.exec.sandbox import NoSandbox, Sandbox, find_sandbox
from agent.tools.files import quota
from agent.tools.files.quota import DiskLimits, DiskUsage
from agent.tools.files.workspace import Workspace, Workspaces
from gateway.clock import SystemClock
from gateway.config.features import AttachmentSettings
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Attachment, AttachmentKind, literal_text
from gateway.scrub import Scrubber
from tests.parts.agents import message
from tests.parts.waiting import until
from tests.unit.test_inbox import Platform

MB = 1024**2
ANN, BEN = "discord:1", "discord:2"
OWN = "all conversations of one person together may hold"
ALL = "the files of all people together"
DISK = "the disk of this machine is nearly full"


def place(workspaces: Workspaces, owner: str, number: int) -> Workspace:
    """One of many threads of one person."""
    return workspaces.of(SessionKey.parse(f"{owner}/{number}"))


def fill(workspace: Workspace, size_bytes: int, name: str = "f") -> None:
    workspace.write(name, os.urandom(size_bytes))


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Turns the clock of the quotas ahead."""
    moved, now_s = SimpleNamespace(s=0.0), time.monotonic
    monkeypatch.setattr(quota, "time", SimpleNamespace(monotonic=lambda: now_s() + moved.s))

    def turn(seconds: float) -> None:
        moved.s += seconds

    return turn


def test_more_places_are_not_more_room(tmp_path: Path) -> None:
    """Each place is far from full; another person has room all the same."""
    workspaces = Workspaces(tmp_path, disk=DiskLimits(owner_bytes=4 * MB))
    for number in range(3):
        fill(place(workspaces, ANN, number), MB)
    with pytest.raises(ToolError, match=OWN):
        fill(place(workspaces, ANN, 3), MB)
    assert not (place(workspaces, ANN, 3).files / "f").exists()
    fill(place(workspaces, BEN, 1), MB)
    fill(place(workspaces, ANN, 0), MB // 2)  # what becomes smaller is welcome


def test_what_was_there_before_the_start_counts(tmp_path: Path) -> None:
    """Whose a home is stands in it: the name of a folder does not tell."""
    before = Workspaces(tmp_path)
    for number in range(4):
        fill(place(before, ANN, number), MB)
    with pytest.raises(ToolError, match=OWN):
        fill(place(Workspaces(tmp_path, disk=DiskLimits(owner_bytes=4 * MB)), ANN, 9), MB)


def test_a_process_hears_of_another_after_a_minute_and_of_what_was_deleted_after_seconds(
    tmp_path: Path, ahead: Callable[[float], None]
) -> None:
    one, other = (Workspaces(tmp_path, disk=DiskLimits(owner_bytes=4 * MB)) for _ in range(2))
    fill(place(one, ANN, 1), MB)
    for number in (2, 3):
        fill(place(other, ANN, number), MB)
    ahead(OWNER_MEASURED_EVERY_S)
    with pytest.raises(ToolError, match=OWN):
        fill(place(one, ANN, 1), MB, "more")
    for number in (2, 3):
        place(other, ANN, number).delete("f")
    ahead(OWNER_REFUSED_AFTER_S)
    fill(place(one, ANN, 1), MB, "more")


def test_a_write_looks_through_no_other_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, however many places there are."""
    workspaces = Workspaces(tmp_path, disk=DiskLimits(owner_bytes=64 * MB))
    for number in range(20):
        fill(place(workspaces, ANN, number), 10)
    looked: list[Path] = []

    def watched(folder: Path) -> DiskUsage:
        looked.append(folder)
        return DiskUsage(0, 0)

    monkeypatch.setattr(quota, "usage", watched)
    for number in range(20):
        fill(place(workspaces, ANN, number), 20)
    assert looked == []


async def test_all_together_are_bounded_too(tmp_path: Path, ahead: Callable[[float], None]) -> None:
    before = Workspaces(tmp_path)
    people = [f"discord:{number}" for number in range(5)]
    for person in people:
        fill(place(before, person, 1), MB)
    mine = place(Workspaces(tmp_path, disk=DiskLimits(all_bytes=6 * MB)), ANN, 2)

    def refusal() -> str:
        """Everybody is looked at on a thread of its own, from the first write on."""
        try:
            mine.check_room(2 * MB)
        except ToolError as error:
            return str(error)
        return ""

    await until(lambda: ALL in refusal())
    for person in people[2:]:
        shutil.rmtree(place(before, person, 1).files.parent)
    ahead(ALL_REFUSED_AFTER_S)
    await until(lambda: not refusal())


def test_nothing_is_written_where_little_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For anybody; reading and deleting go on."""
    mine = place(Workspaces(tmp_path, disk=DiskLimits(free_bytes=100 * MB)), ANN, 1)
    disk = SimpleNamespace(free=1000 * MB)
    monkeypatch.setattr(quota, "shutil", SimpleNamespace(disk_usage=lambda _: disk))
    fill(mine, MB)
    disk.free = 101 * MB
    fill(mine, MB // 2, "small")
    with pytest.raises(ToolError, match=DISK):
        fill(mine, 2 * MB, "large")
    disk.free = 99 * MB
    with pytest.raises(ToolError, match=DISK):
        fill(mine, 1, "tiny")
    assert len(mine.read("f")) == MB
    mine.delete("f")


async def test_a_file_that_could_not_be_kept_is_not_fetched(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path, disk=DiskLimits(owner_bytes=4 * MB))
    fill(place(workspaces, ANN, 1), 2 * MB)
    platform = Platform(file_1=b"x" * 3 * MB)
    photo = Attachment(AttachmentKind.IMAGE, "file-1", literal_text("a.png"), literal_text("image/png"), 3 * MB)
    said = replace(message("look", f"{ANN}/2"), attachments=(photo,))

    async def taken(homes: Workspaces) -> KeptFile | RefusedFile:
        return await Inbox(platform, homes, AttachmentSettings(), Scrubber(), SystemClock()).take(said, photo)

    refused = await taken(workspaces)
    assert isinstance(refused, RefusedFile)
    assert OWN in refused.reason
    assert platform.asked == []
    assert isinstance(await taken(Workspaces(tmp_path)), KeptFile)


@pytest.fixture
async def sandbox() -> Sandbox:
    found = await find_sandbox(hidden=[])
    if isinstance(found, NoSandbox):
        pytest.skip(found.reason)
    return found


async def test_a_program_is_stopped_at_the_bound_of_its_owner_and_what_it_left_counts(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
    workspaces = Workspaces(tmp_path, disk=DiskLimits(owner_bytes=8 * MB))
    for name in ("f", "g"):
        fill(place(workspaces, ANN, 1), 2 * MB, name)
    mine = place(workspaces, ANN, 2)

    async def stopped(script: str) -> str:
        run = await sandbox.execute(["bash", "-c", script], workspace=mine.files, timeout_s=30, share=mine.share)
        return run.stopped

    assert OWN in await stopped("for i in $(seq 1000); do head -c 1000000 /dev/zero > f$i; sleep 0.05; done")
    with pytest.raises(ToolError, match=OWN):
        fill(place(workspaces, ANN, 3), MB)
    assert await stopped("rm -f f* && sleep 0.3") == ""  # who makes room may
    fill(place(workspaces, ANN, 3), MB)
