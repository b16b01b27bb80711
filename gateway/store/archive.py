"""One archive of all that an installation keeps on this machine, taken while everything runs.

The database is copied as it stands at one moment (https://sqlite.org/backup.html). Files are copied one by one: of one
that is written meanwhile the archive has some whole state, or its beginning. What waits in the queue is not in it: it
belongs to those who are about to answer it, and would be answered twice.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Final

from gateway.contracts.errors import ConfigError, StoreUnavailable

DATABASE_NAME: Final = "trivet.db"
_NOT_KEPT: Final = frozenset({"redis"})
"""Folders of `data_dir` that belong to running servers."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds. `database_bytes` 0: no database, for it is on a server or was never made."""

    database_bytes: int
    files: int


def archive(data_dir: Path, database: Path | None, output: IO[bytes], *, folder: Path) -> Archived:
    """Write all that is in `data_dir`, and the SQLite file `database`, to `output` as a `.tar.gz`.

    Names in it are those below `data_dir`: unpacked as a `data_dir`, it is one. `folder` has room for a copy of the
    database. Raises `ConfigError` where there is nothing, `StoreUnavailable` where the database cannot be read, and
    `OSError` where `output` takes no more.
    """
    if not data_dir.is_dir():
        raise ConfigError(f"{data_dir} is not there: nothing was kept yet, or data_dir names another place")
    with gzip.GzipFile(fileobj=output, mode="wb") as packed, tarfile.open(fileobj=packed, mode="w|") as into:
        database_bytes = _add_database(into, database, folder) if database is not None else 0
        files = sum(_add(into, data_dir, path) for path in _kept(data_dir, database, os.fstat(output.fileno())))
    return Archived(database_bytes, files)


def _kept(data_dir: Path, database: Path | None, output: os.stat_result) -> Iterator[Path]:
    """Every file, link and folder that belongs into it, folders before what is in them."""
    beside = {f"{database}{ending}" for ending in ("", "-wal", "-shm", "-journal")} if database is not None else set()
    for folder, folders, names in os.walk(data_dir):
        if Path(folder) == data_dir:
            folders[:] = [name for name in folders if name not in _NOT_KEPT]
        for name in sorted(folders) + sorted(names):
            path = Path(folder, name)
            if str(path) not in beside and not (path.is_file() and os.path.samestat(path.stat(), output)):
                yield path


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


def _add(into: tarfile.TarFile, data_dir: Path, path: Path) -> bool:
    """True for a file. What is gone meanwhile, and what is no file, folder or link, is passed over."""
    try:
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            return False
        row = into.gettarinfo(path, str(path.relative_to(data_dir)))
        if stat.S_ISREG(mode):
            _add_file(into, row, path)
        else:
            into.addfile(row)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(mode)


def _add_file(into: tarfile.TarFile, row: tarfile.TarInfo, path: Path) -> None:
    """A file that grows or shrinks while it is read must not spoil the archive: what was read is what is written."""
    row.type, row.linkname = tarfile.REGTYPE, ""  # the second name of a file is a file of its own
    with TemporaryFile() as copy, path.open("rb") as found:
        shutil.copyfileobj(found, copy)
        row.size = copy.tell()
        copy.seek(0)
        into.addfile(row, copy)
