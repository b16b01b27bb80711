"""One archive of all that an installation keeps on this machine, taken while everything runs, and its way back.

The database is copied as it is at one moment (https://sqlite.org/backup.html). Files are copied one by one: of one
that is written meanwhile the archive has some whole state, or its beginning.

The queue of the embedded server is copied before the database: what was answered between the two is known there as
answered. It comes back only where that is asked for, since what was answered after the backup would be answered twice.
"""

from __future__ import annotations

import grp
import gzip
import io
import os
import pwd
import shutil
import sqlite3
import stat
import sys
import tarfile
import time
import zlib
from collections.abc import Mapping, Set
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Final

from gateway.contracts.errors import ConfigError, StoreUnavailable

DATABASE_NAME: Final = "trivet.db"
SETTINGS_NAME: Final = "trivet.toml"
_COUNTED: Final = ("sessions", "entries", "facts", "grants", "schedules")
QUEUE_NAME: Final = "redis"
_NOT_KEPT: Final = frozenset({QUEUE_NAME})
"""Folders of `data_dir` that belong to running servers."""
_LOG_FOLDER: Final = "appendonlydir"
_MANIFEST: Final = "appendonly.aof.manifest"
"""The server's own names: https://valkey.io/topics/persistence"""
_QUEUE_TRIES: Final = 5  # a rewrite of the log takes less than a second, and comes once in a while
_PATH_BYTES_MAX: Final = 4096  # PATH_MAX of Linux
_DEPTH_MAX: Final = 300  # folders in one another, each held open: no tool of ours goes so deep
_OPENED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FLAGS: Final = {stat.S_IFREG: _OPENED, stat.S_IFDIR: _OPENED | os.O_DIRECTORY}


@dataclass(frozen=True, slots=True)
class Archived:
    """The content of an archive. `database_bytes` 0: no database, for it is on a server or was never made. `left_out`
    were files and folders that could not be read, or lay too deep. `has_queue`: that of the embedded server, if there
    is one."""

    database_bytes: int
    files: int
    left_out: int
    has_queue: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored things: how many rows of each kind (None: no database, for it is on a server), how many files, how
    many that lead elsewhere or lie too deep did not, whether the archive has a queue, and where the configuration file
    is that came along."""

    rows: Mapping[str, int] | None
    files: int
    left_out: int
    has_queue: bool
    settings: Path | None


def archive(data_dir: Path, database: Path | None, output: IO[bytes], *, folder: Path, settings: str = "") -> Archived:
    """Write all that is in `data_dir`, the SQLite file `database`, and the text of the configuration file as
    SETTINGS_NAME, to `output` as a `.tar.gz`.

    Names in it are those below `data_dir`: unpacked as a `data_dir`, it is one. `folder` has room for a copy of the
    database. Raises `ConfigError` where there is nothing, `StoreUnavailable` where the database cannot be read, and
    `OSError` where `output` takes no more."""
    if not data_dir.is_dir():
        raise ConfigError(f"{data_dir} is not there: nothing was kept yet, or data_dir names another place")
    kept_apart = (
        {f"{database}{ending}" for ending in ("", "-wal", "-shm", "-journal")} if database is not None else set()
    )
    with gzip.GzipFile(fileobj=output, mode="wb") as packed, tarfile.open(fileobj=packed, mode="w|") as into:
        has_queue = _add_queue(into, data_dir / QUEUE_NAME / _LOG_FOLDER, folder)
        database_bytes = _add_database(into, database, folder) if database is not None else 0
        if settings:
            row, content = tarfile.TarInfo(SETTINGS_NAME), settings.encode()
            row.mode, row.size, row.mtime = 0o600, len(content), int(time.time())
            into.addfile(row, io.BytesIO(content))
            kept_apart.add(str(data_dir / SETTINGS_NAME))
        packing = _Packing(into, data_dir, kept_apart, os.fstat(output.fileno()))
        packing.add_all()
    return Archived(database_bytes, packing.files, packing.left_out, has_queue)


class _Packing:
    """Puts files, folders and links into an archive. Nothing is reached by a path: a writer in a workspace may
    put a link or a pipe in the place of what was just seen there."""

    def __init__(self, into: tarfile.TarFile, data_dir: Path, kept_apart: Set[str], output: os.stat_result) -> None:
        self._into = into
        self._data_dir = data_dir
        self._kept_apart = kept_apart
        self._output = output
        self.files = 0
        self.left_out = 0

    def add_all(self) -> None:
        """Add everything that belongs into it, folders before what is in them."""
        folder = os.open(self._data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._add_below(folder, PurePath())
        finally:
            os.close(folder)

    def _add_below(self, folder: int, at: PurePath) -> None:
        for name in sorted(os.listdir(folder)):
            path = at / name
            if str(path) not in _NOT_KEPT and str(self._data_dir / path) not in self._kept_apart:
                self._add(folder, path)

    def _add(self, folder: int, path: PurePath) -> None:
        """Add what there is. What is gone meanwhile, and what is no file, folder or link, is passed over."""
        try:
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            kind = stat.S_IFMT(found.st_mode)
            target = os.readlink(path.name, dir_fd=folder) if kind == stat.S_IFLNK else ""
            opened = os.open(path.name, _FLAGS[kind], dir_fd=folder) if kind in _FLAGS else None
        except FileNotFoundError:
            return
        except OSError:
            self.left_out += 1
            return
        if target:
            self._into.addfile(_row(path, found, tarfile.SYMTYPE, target))
        if opened is not None:
            try:
                self._add_opened(opened, path)
            finally:
                os.close(opened)

    def _add_opened(self, opened: int, path: PurePath) -> None:
        found = os.fstat(opened)
        if stat.S_ISDIR(found.st_mode) and len(path.parts) <= _DEPTH_MAX:
            self._into.addfile(_row(path, found, tarfile.DIRTYPE))
            self._add_below(opened, path)
        elif not stat.S_ISREG(found.st_mode):
            self.left_out += 1
        elif not os.path.samestat(found, self._output):
            self._add_file(opened, _row(path, found, tarfile.REGTYPE))
            self.files += 1

    def _add_file(self, opened: int, row: tarfile.TarInfo) -> None:
        """Add a file. One that grows or shrinks while it is read must not spoil the archive: what was read is what is
        written."""
        with TemporaryFile() as copy, os.fdopen(opened, "rb", closefd=False) as file:
            shutil.copyfileobj(file, copy)
            row.size = copy.tell()
            copy.seek(0)
            self._into.addfile(row, copy)


def _row(path: PurePath, found: os.stat_result, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Say what an archive says of a file, a folder or a link. The second name of a file is a file of its own."""
    row = tarfile.TarInfo(str(path))
    row.type, row.linkname = kind, target
    row.mode, row.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
    row.uid, row.gid = found.st_uid, found.st_gid
    with suppress(KeyError):  # users and groups may have no names
        row.uname, row.gname = pwd.getpwuid(row.uid).pw_name, grp.getgrgid(row.gid).gr_name
    return row


def _add_queue(into: tarfile.TarFile, log: Path, folder: Path) -> bool:
    """Add the server's log as it is at one moment: the files that its manifest names, the last of them perhaps cut
    off, which the server mends at its start. Raises `StoreUnavailable` where it changes as often as it is read."""
    for _ in range(_QUEUE_TRIES):
        with TemporaryDirectory(dir=folder) as place:
            try:
                manifest = (log / _MANIFEST).read_bytes()
                names = [line.split()[1] for line in manifest.decode().splitlines() if line.startswith("file ")]
                for name in names:
                    shutil.copyfile(log / name, Path(place, name))
                is_whole = (log / _MANIFEST).read_bytes() == manifest
            except FileNotFoundError:
                if not (log / _MANIFEST).exists():
                    return False
                continue
            if is_whole:
                Path(place, _MANIFEST).write_bytes(manifest)
                for name in (*names, _MANIFEST):
                    Path(place, name).chmod(0o600)
                    into.add(Path(place, name), f"{QUEUE_NAME}/{_LOG_FOLDER}/{name}")
                return True
    raise StoreUnavailable(f"the queue in {log} is written anew all the time: try again")


def restore(source: IO[bytes], data_dir: Path, *, takes_queue: bool) -> Restored:
    """Unpack an archive as `data_dir`, which does not exist yet or is empty. Until its database has been read through,
    what is unpacked is in a folder of its own there: `data_dir` may be a volume, and what is around it root's. Owners
    are not restored: all of it belongs to the user who restores it.

    Raises `ConfigError` where `data_dir` holds something, `source` is no archive of ours or Python is too old, and
    `StoreUnavailable` where the database in it is damaged."""
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise ConfigError(f"{data_dir} is not empty: move it away, or name another data_dir")
    if not hasattr(tarfile, "data_filter"):  # as that of Debian 12
        remedy = "use Python 3.11.4 or newer, or unpack the archive into data_dir with `tar -xzf`"
        raise ConfigError(f"this Python ({sys.version.split()[0]}) cannot unpack safely: {remedy}")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=data_dir) as place:  # nobody else may look in
        unpacked = Path(place)
        left_out = 0

        def kept(row: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
            """Leave out what leads out of the folder, as a person's links may, and what lies too deep to be named."""
            nonlocal left_out
            try:
                if len(os.fsencode(f"{folder}/{row.name}")) < _PATH_BYTES_MAX:
                    return tarfile.data_filter(row, folder)
            except tarfile.FilterError:
                pass
            left_out += 1
            return None

        try:
            with tarfile.open(fileobj=source, mode="r|gz") as packed:
                packed.extractall(unpacked, filter=kept)  # noqa: S202 - the filter keeps all of it inside
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ConfigError(f"this is no whole archive of `trivet backup`: {error}") from error
        rows = _checked_rows(unpacked / DATABASE_NAME)
        files = sum(path.is_file() for path in unpacked.rglob("*"))
        has_queue = (unpacked / QUEUE_NAME).is_dir()
        if has_queue and not takes_queue:
            shutil.rmtree(unpacked / QUEUE_NAME)
        for each in unpacked.iterdir():
            each.replace(data_dir / each.name)
    settings = data_dir / SETTINGS_NAME
    return Restored(rows, files, left_out, has_queue, settings if settings.is_file() else None)


def _checked_rows(database: Path) -> dict[str, int] | None:
    """Read a database through, and count what is in it; None where there is none."""
    if not database.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            [[said]] = opened.execute("PRAGMA integrity_check(1)").fetchall()
            if said == "ok":
                return {name: opened.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _COUNTED}  # noqa: S608 - our names
    except sqlite3.Error as error:
        said = str(error)
    raise StoreUnavailable(f"the database in the archive is damaged: {said}")


def _add_database(into: tarfile.TarFile, database: Path, folder: Path) -> int:
    if not database.is_file():
        return 0
    with TemporaryDirectory(dir=folder) as place:
        copy = Path(place, DATABASE_NAME)
        try:
            with (
                closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the database {database} cannot be copied: {error}") from error
        copy.chmod(0o600)
        into.add(copy, DATABASE_NAME)
        return copy.stat().st_size
