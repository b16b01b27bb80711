"""`trivet backup`: everything that an installation keeps on its machine, in one file, taken while it is used."""

from __future__ import annotations

import asyncio
import os
import re
import tarfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Grant, GrantRole
from gateway.ops.cli.start import app
from gateway.store import open_store
from gateway.store.migrations import migrate
from tests.parts.bus_samples import message


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data_dir of an installation that has been used, with all that may lie in it."""
    home = tmp_path / "kept"
    files = home / "workspaces" / "telegram:1" / "files"
    files.mkdir(parents=True)
    (files / "plan.md").write_text("later")
    (files / "link").symlink_to("plan.md")
    os.mkfifo(files / "pipe")
    (home / "placeholder-key").write_text("the key")
    (home / "redis").mkdir()
    (home / "redis" / "queue.aof").write_text("what waits")
    monkeypatch.setenv("TRIVET_DATA_DIR", str(home))
    monkeypatch.chdir(tmp_path)
    return home


def url_of(home: Path) -> str:
    return f"sqlite+aiosqlite:///{home}/trivet.db"


def unpacked(path: Path, home: Path) -> Path:
    with tarfile.open(path) as archive:
        archive.extractall(home, filter="data")
    return home


def taken(*options: str) -> Result:
    return CliRunner().invoke(app, ["backup", *options])


def granted(number: int) -> Grant:
    return Grant(SessionKey("telegram", str(number)), GrantRole.MEMBER, granted_by="cli", created_at_ms=number)


async def known(home: Path) -> tuple[str | None, int]:
    """The name of an installation, and how many people it knows."""
    store = open_store(url_of(home))
    try:
        await store.check_schema()
        return await store.known_installation(), len(await store.access.grants())
    finally:
        await store.close()


async def test_a_copy_that_is_taken_while_it_is_written_is_an_installation(kept: Path, tmp_path: Path) -> None:
    await migrate(url_of(kept))
    store = open_store(url_of(kept))
    name = await store.installation()
    written, first = count(1), asyncio.Event()

    async def write() -> None:
        for number in written:
            await store.access.put_grant(granted(number))
            first.set()

    writing = asyncio.create_task(write())
    await first.wait()
    result = await asyncio.to_thread(taken, "--output", "all.tar.gz")
    writing.cancel()
    await asyncio.wait({writing})
    await store.close()
    assert result.exit_code == 0, result.output
    copy = await asyncio.to_thread(unpacked, tmp_path / "all.tar.gz", tmp_path / "copy")
    copied_name, people = await known(copy)
    assert copied_name == name
    assert 1 <= people < next(written)


def test_files_keys_and_links_are_in_it_and_what_belongs_to_running_servers_is_not(kept: Path, tmp_path: Path) -> None:
    result = taken()
    [archive] = tmp_path.glob("trivet-*.tar.gz")
    assert archive.stat().st_mode & 0o077 == 0
    assert f"{archive.name}: a database of 0 bytes and 2 files" in result.output
    copy = unpacked(archive, tmp_path / "copy")
    assert (copy / "workspaces" / "telegram:1" / "files" / "link").read_text() == "later"
    assert (copy / "placeholder-key").read_text() == "the key"
    assert not (copy / "redis").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "hole"])
def test_what_is_put_in_the_place_of_a_file_while_it_is_copied_is_not_followed(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whoever writes in a workspace may change a file between a look at it and its copy: to a link to what is not his,
    or to a pipe at which a reader waits for ever."""
    (tmp_path / "passwords").write_text("not yours")
    plan = kept / "workspaces" / "telegram:1" / "files" / "plan.md"

    def swap() -> None:
        plan.unlink()
        match kind:
            case "link":
                plan.symlink_to(tmp_path / "passwords")
            case "pipe":
                os.mkfifo(plan)

    _after_a_look(monkeypatch, "plan.md", swap)
    result = taken("--output", "all.tar.gz")
    assert result.exit_code == 0, result.output
    assert "not yours" not in _contents(tmp_path / "all.tar.gz")
    assert ("are not in it: 1" in result.output) is (kind != "hole")


def test_a_folder_that_becomes_a_link_is_not_entered(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "passwords").write_text("not yours")
    folder = kept / "workspaces" / "telegram:1" / "files" / "folder"
    folder.mkdir()

    def swap() -> None:
        folder.rmdir()
        folder.symlink_to(tmp_path / "elsewhere")

    _after_a_look(monkeypatch, "folder", swap)
    assert taken("--output", "all.tar.gz").exit_code == 0
    assert "not yours" not in _contents(tmp_path / "all.tar.gz")


def test_what_a_workspace_can_hold_stops_no_backup(kept: Path, tmp_path: Path) -> None:
    """Folders deeper than a path may be long, names that are no text, links to nothing and to everything, a file with
    two names."""
    files = kept / "workspaces" / "telegram:1" / "files"
    _deepen(files, "d" * 200, 400)
    (files / os.fsdecode(b"\xff\xfe")).write_text("odd")
    (files / "nowhere").symlink_to("/no/such/place")
    (files / "root").symlink_to("/")
    os.link(files / "plan.md", files / "plan again.md")
    result = taken("--output", "all.tar.gz")
    assert result.exit_code == 0, result.output
    assert "are not in it: 1" in result.output
    contents = _contents(tmp_path / "all.tar.gz")
    assert sorted(contents) == ["later", "later", "odd", "the key"]
    with tarfile.open(tmp_path / "all.tar.gz") as archive:
        assert archive.getmember("workspaces/telegram:1/files/root").linkname == "/"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def restored(archive: str = "all.tar.gz", *options: str) -> Result:
    return CliRunner().invoke(app, ["restore", archive, *options])


async def test_a_backup_is_put_back_whole_and_counted(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(url_of(kept))
    store = open_store(url_of(kept))
    name = await store.installation()
    await store.access.put_grant(granted(1))
    await store.close()
    (tmp_path / "trivet.toml").write_text('[channels.telegram]\ntoken = "123456:secret-of-the-bot"\n')
    (kept / "workspaces" / "telegram:1" / "files" / "root").symlink_to("/")
    _deepen(kept / "workspaces", "d" * 200, 30)
    assert (await asyncio.to_thread(taken, "--output", "all.tar.gz")).exit_code == 0
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("TRIVET_DATA_DIR", str(home))
    result = await asyncio.to_thread(restored)
    assert result.exit_code == 0, result.output
    assert f"{home}: 5 files; 0 sessions, 0 entries, 0 facts, 1 grants, 0 schedules" in result.output
    assert re.search(r"left out: \d+\n", result.output)
    assert await known(home) == (name, 1)
    assert home.stat().st_mode & 0o077 == 0
    assert names_in(home.parent) == ["home"]
    settings = (home / "trivet.toml").read_text()
    assert "[channels.telegram]" in settings
    assert "secret-of-the-bot" not in settings
    assert "is not empty" in str((await asyncio.to_thread(restored)).exception)


def test_a_folder_that_is_there_is_filled_and_not_replaced(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a volume, and the folder that it is in may be root's alone."""
    assert taken("--output", "all.tar.gz").exit_code == 0
    home = tmp_path / "new"
    home.mkdir()
    before = home.stat().st_ino
    monkeypatch.setenv("TRIVET_DATA_DIR", str(home))
    result = restored()
    assert result.exit_code == 0, result.output
    assert home.stat().st_ino == before
    assert sorted(names_in(home)) == ["placeholder-key", "workspaces"]


@pytest.mark.parametrize("options", [(), ("--with-queue",)])
async def test_what_waits_is_in_it_and_waits_again_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Taken from a server that serves, with something written every moment."""
    home = tmp_path / "kept"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIVET_DATA_DIR", str(home))
    server = EmbeddedValkey(home)
    await migrate(url_of(home))
    bus = await open_bus(await server.start(), installation="us")
    await bus.intake.enqueue(message(1))
    taking = asyncio.create_task(asyncio.to_thread(taken, "--output", "all.tar.gz"))
    written = 1
    while not taking.done():
        written += 1
        await bus.intake.enqueue(message(written, SessionKey("telegram", str(written))))
        await asyncio.sleep(0)
    assert "and what waits for an answer" in taking.result().output
    await bus.close()
    await server.stop()
    again = tmp_path / "again"
    monkeypatch.setenv("TRIVET_DATA_DIR", str(again))
    result = await asyncio.to_thread(restored, "all.tar.gz", *options)
    assert ("waits again" if options else "--with-queue") in result.output
    server = EmbeddedValkey(again)
    bus = await open_bus(await server.start(), installation="us")
    try:
        queued = (await bus.operator.figures()).queued
        assert 1 <= queued <= written if options else queued == 0
    finally:
        await bus.close()
        await server.stop()


def test_the_settings_are_taken_as_they_are_where_that_is_asked_for(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "trivet.toml").write_text('[channels.telegram]\ntoken = "123456:secret-of-the-bot"\n')
    assert taken("--output", "all.tar.gz", "--with-secrets").exit_code == 0
    assert any("secret-of-the-bot" in text for text in _contents(tmp_path / "all.tar.gz"))


@pytest.mark.parametrize("harm", ["cut", "no archive", "damaged"])
async def test_what_is_not_whole_is_not_put_back(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    await migrate(url_of(kept))
    archive = tmp_path / "all.tar.gz"
    match harm:
        case "cut":
            await asyncio.to_thread(taken, "--output", archive.name)
            archive.write_bytes(archive.read_bytes()[:-2000])
        case "no archive":
            archive.write_text("hello")
        case _:
            (tmp_path / "trivet.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
            with tarfile.open(archive, "w:gz") as packed:
                packed.add(tmp_path / "trivet.db", "trivet.db")
    home = tmp_path / "new"
    monkeypatch.setenv("TRIVET_DATA_DIR", str(home))
    result = await asyncio.to_thread(restored)
    assert result.exit_code == 1
    told = str(result.exception)
    assert "no whole archive" in told or "is damaged" in told
    assert names_in(home) == []
    assert not any(name.startswith(".") for name in names_in(tmp_path))


def test_a_python_that_cannot_unpack_safely_says_so(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of Debian 12, 3.11.2."""
    assert taken("--output", "all.tar.gz").exit_code == 0
    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.setenv("TRIVET_DATA_DIR", str(tmp_path / "new"))
    told = restored().exception
    assert isinstance(told, ConfigError)
    assert "3.11.4" in str(told)
    assert "tar " in str(told)


def _deepen(folder: Path, name: str, levels: int) -> None:
    at = os.open(folder, os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def _contents(path: Path) -> list[str]:
    """What the files in an archive say."""
    with tarfile.open(path) as archive:
        found = [archive.extractfile(member) for member in archive if member.isreg()]
        return [file.read().decode() for file in found if file is not None]


def _after_a_look(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Do something once, right after somebody was told what stands under a name, without following links."""
    looks: dict[str, Callable[..., os.stat_result]] = {"lstat": os.lstat, "stat": os.stat}
    left = [act]

    def looking(look: str) -> Callable[..., os.stat_result]:
        def done(path: str | int, **how: Any) -> os.stat_result:
            found = looks[look](path, **how)
            is_it = look == "lstat" or (how.get("dir_fd") is not None and not how.get("follow_symlinks", True))
            if is_it and not isinstance(path, int) and Path(path).name == name and left:
                left.pop()()
            return found

        return done

    for look in looks:
        monkeypatch.setattr(os, look, looking(look))


def test_an_archive_inside_the_folder_does_not_hold_itself(kept: Path) -> None:
    assert taken("--output", str(kept / "all.tar.gz")).exit_code == 0
    with tarfile.open(kept / "all.tar.gz") as archive:
        assert "all.tar.gz" not in archive.getnames()


def test_a_file_that_is_there_is_left_alone_and_one_that_failed_is_not_left(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.tar.gz").write_text("mine")
    assert "cannot be written" in str(taken("--output", "mine.tar.gz").exception)
    assert (tmp_path / "mine.tar.gz").read_text() == "mine"
    (kept / "trivet.db").write_text("no database at all, but long enough to be read as one" * 40)
    assert "cannot be copied" in str(taken("--output", "all.tar.gz").exception)
    assert not (tmp_path / "all.tar.gz").exists()


def test_a_database_on_a_server_is_said_to_be_elsewhere(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIVET_DATABASE__URL", "postgresql+asyncpg://me:hush@db.invalid/trivet")
    result = taken()
    assert "pg_dump" in result.output
    assert "hush" not in result.output
