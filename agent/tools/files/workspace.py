"""The folder of one conversation, and what can be done in it. Everything here blocks: call it in a thread."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final
from weakref import WeakValueDictionary

from agent import limits
from agent.tools.files.paths import FOLDER_FLAGS, FolderEntry, NotThere, in_plain_words, open_entry
from agent.tools.files.quota import QUOTA, UNBOUNDED, DiskLimits, DiskTotals, DiskUsage, Share, complaint, usage
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey, folder_name

# One change of a folder at a time, across the threads of one process and across processes. Blocks.


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderLock:
    """`with lock:` waits until nobody else holds the lock of this folder; a thread that has it may take it again.

    What is locked is the folder itself, so nothing has to be made, and the kernel lets go for a process that dies.
    Raises `ToolError` when somebody holds it for FOLDER_LOCK_S: a process may have been stopped in the middle."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._threads = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._depth == 0:
                descriptor = os.open(self._folder, _FOLDER)
                try:
                    give_up_at = time.monotonic() + limits.FOLDER_LOCK_S
                    while not _is_ours(descriptor):
                        if time.monotonic() > give_up_at:
                            raise ToolError(
                                "somebody else is changing these files and does not come to an end: try again later"
                            )
                        time.sleep(limits.FOLDER_LOCK_LOOK_S)
                except BaseException:
                    os.close(descriptor)
                    raise
                self._descriptor = descriptor
            self._depth += 1
        except BaseException:
            self._threads.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            # Said in so many words: a child that is being started right now holds a copy of the descriptor.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
        self._threads.release()


def _is_ours(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


TEMPORARY: Final = ".trivet-unfinished-"
"""The beginning of an unfinished file's name; a crash may leave such a file behind, which no listing shows."""

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_MODE: Final = 0o644
_READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listed:
    """One file or folder. `path` is relative to the workspace; times are Unix seconds."""

    path: str
    is_folder: bool
    is_link: bool
    size_bytes: int
    changed_at_s: float


def parts_of(home: Path) -> tuple[Path, Path]:
    """Return the two folders of a home: its files and its journal. A process may write in these and never in the home
    itself, where it could replace one by a link to another home."""
    return home / "files", home / "journal"


class Workspaces:
    """A folder for each session key, below one root that is the owner's alone."""

    def __init__(self, root: Path, *, quota: DiskUsage = QUOTA, disk: DiskLimits = UNBOUNDED) -> None:
        self.root = root
        self._quota = quota
        self._holdings = DiskTotals(root, disk)
        self._open: WeakValueDictionary[SessionKey, Workspace] = WeakValueDictionary()

    def of(self, key: SessionKey) -> Workspace:
        """Return the workspace of `key`, and create it if it is new. Two tools of one process get the same object."""
        known = self._open.get(key)
        if known is None:
            home = self.root / folder_name(key)
            known = self._open[key] = Workspace(home, quota=self._quota)
            known.share = self._holdings.share(home, str(key.owner))
        return known


class Workspace:
    """One conversation's files in `files/`, and next to them, out of every tool's reach, its journal."""

    def __init__(self, home: Path, *, quota: DiskUsage = QUOTA) -> None:
        self._quota = quota
        self.share: Share | None = None
        """Among what else its owner has; None for a process that sees one home only, and is measured by its parent."""
        self.files, self.journal = parts_of(home)
        self.lock = FolderLock(self.journal)
        """The lock for changes of files, in whichever process: one change at a time, each with its line in the
        journal."""
        for folder in (home, self.files, self.journal):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def read(self, path: str, *, bytes_max: int = limits.FILE_BYTES_MAX) -> bytes:
        """Read a plain file of at most `bytes_max`. Raises `ToolError`."""
        with self._spot(path) as at:
            # The open file is checked, not its name: a pipe would hang, a device would never end, and a second
            # hard link may lead to a file elsewhere.
            descriptor = os.open(at.name, _READ_FILE, dir_fd=at.folder)
            try:
                _refuse_odd(at.path, os.fstat(descriptor))
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    content = file.read(bytes_max + 1)
            finally:
                os.close(descriptor)
            if len(content) > bytes_max:
                raise ToolError(f"{at.path} has more than {bytes_max} bytes: too long for this tool")
            return content

    def read_if_there(self, path: str, *, bytes_max: int = limits.FILE_BYTES_MAX) -> bytes | None:
        """Read a plain file as `read` does, but return None for one that does not exist."""
        try:
            return self.read(path, bytes_max=bytes_max)
        except NotThere:
            return None

    def write(self, path: str, content: bytes, *, bytes_max: int = limits.FILE_BYTES_MAX) -> None:
        """Put a file in place, whole or not at all; missing folders are made. Raises `ToolError`."""
        if len(content) > bytes_max:
            raise ToolError(f"{path}: a file may have at most {bytes_max} bytes")
        with self._spot(path, makes_folders=True) as at:
            self._take_room(_look(at), content)
            _write(at, content)

    def delete(self, path: str) -> None:
        """Delete a file, a symbolic link (not what it points to) or an empty folder. Raises `ToolError`."""
        with self._spot(path, follows_last=False) as at:
            if at.is_workspace:
                raise ToolError("the workspace itself cannot be deleted")
            if _is_folder(at):
                os.rmdir(at.name, dir_fd=at.folder)
            else:
                os.unlink(at.name, dir_fd=at.folder)

    def make_folder(self, path: str) -> None:
        """Make a folder, unless it is there. Raises `ToolError`."""
        with self._spot(path, makes_folders=True, follows_last=False) as at:
            if not _is_folder(at):
                os.mkdir(at.name, 0o755, dir_fd=at.folder)

    def delete_folder(self, path: str) -> None:
        """Delete a folder, unless it is gone or something is in it. Raises `ToolError`."""
        with suppress(NotThere):
            if self.look(path).is_folder and not self.entries(path):
                self.delete(path)

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """List the folders above `path` that a write would create, outermost first. Raises `ToolError`."""
        missing = []
        for at, letter in enumerate(path):
            if letter == "/" and path[:at].strip("./"):
                try:
                    self.resolved(f"{path[:at]}/what is in it")
                except NotThere:
                    missing.append(path[:at])
        return tuple(missing)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a name that is free; missing folders are made. Raises `ToolError`."""
        with (
            self._spot(source, follows_last=False) as at,
            self._spot(target, makes_folders=True, follows_last=False) as to,
        ):
            if at.is_workspace or to.is_workspace:
                raise ToolError("the workspace itself cannot be moved")
            if _look(at) is None:
                raise ToolError(f"{at.path} does not exist")
            if _look(to) is not None:
                raise ToolError(f"{to.path} exists already: delete it first, or choose another name")
            if to.path.startswith(f"{at.path}/"):
                raise ToolError("a folder cannot be moved into itself")
            os.rename(at.name, to.name, src_dir_fd=at.folder, dst_dir_fd=to.folder)

    def resolved(self, path: str) -> str:
        """Resolve dots and symbolic links in the path. Raises `ToolError` if it leads nowhere or outside."""
        with self._spot(path) as at:
            return at.path

    def look(self, path: str) -> Listed:
        """Describe the entry at `path`, a symbolic link as itself. Raises `ToolError` if there is none."""
        with self._spot(path, follows_last=False) as at:
            found = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
            return _listed(at.path, found)

    def has(self, path: str) -> bool:
        """Tell whether there is an entry at `path`. Raises `ToolError` if it leads outside."""
        try:
            self.look(path)
        except NotThere:
            return False
        return True

    def entries(self, path: str) -> list[Listed]:
        """List a folder's files and folders by name, at most LISTED_FILES_MAX of them. Raises `ToolError`."""
        with self._spot(path) as at, _opened(at.name, at.folder) as folder:
            return list(islice(_in_folder(folder, at.path), limits.LISTED_FILES_MAX))

    def walk(self, path: str) -> Iterator[Listed]:
        """Walk everything below a folder, folders before their content, by name; symbolic links are listed, not
        followed; at most WALKED_FILES_MAX. Raises `ToolError`."""
        with self._spot(path) as at, _opened(at.name, at.folder) as folder:
            yield from islice(_below(folder, at.path), limits.WALKED_FILES_MAX)

    def check_room(self, growth: int, *, files: int = 1) -> None:
        """Check that there is room for so many bytes and files more. Raises `ToolError` if not."""
        taken = usage(self.files)
        said = complaint(DiskUsage(taken.size_bytes + growth, taken.files + files), self._quota)
        if said := said or (self.share.complaint(growth) if self.share is not None else ""):
            raise ToolError(said)

    def _take_room(self, before: os.stat_result | None, content: bytes) -> None:
        growth = len(content) - (before.st_size if before is not None else 0)
        if growth > 0 or before is None:
            self.check_room(growth, files=int(before is None))
            if self.share is not None:
                self.share.grown(growth)

    @contextmanager
    def _spot(self, path: str, *, makes_folders: bool = False, follows_last: bool = True) -> Iterator[FolderEntry]:
        """Open the entry at `path`, and turn every error of the system into a `ToolError` in plain words."""
        try:
            workspace = os.open(self.files, FOLDER_FLAGS)
            try:
                with open_entry(workspace, path, makes_folders=makes_folders, follows_last=follows_last) as found:
                    yield found
            finally:
                os.close(workspace)
        except OSError as error:
            raise in_plain_words(error, path or "the workspace") from error
        except UnicodeEncodeError as error:
            raise ToolError("a path has no half characters") from error


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    folder = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _in_folder(folder: int, path: str) -> Iterator[Listed]:
    """List the content of an open folder by name. An entry that disappears meanwhile is left out."""
    for name in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):
            if not name.startswith(TEMPORARY):
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
                yield _listed(f"{path}/{name}".lstrip("/"), state)


def _below(folder: int, path: str, depth: int = 0) -> Iterator[Listed]:
    """Walk an open folder and those below it, each folder followed by its content."""
    for entry in _in_folder(folder, path):
        yield entry
        if entry.is_folder and depth < limits.PATH_PARTS_MAX:
            with suppress(OSError), _opened(entry.path.rpartition("/")[2], folder) as deeper:
                yield from _below(deeper, entry.path, depth + 1)


def _look(at: FolderEntry) -> os.stat_result | None:
    try:
        return os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_folder(at: FolderEntry) -> bool:
    state = _look(at)
    return state is not None and stat.S_ISDIR(state.st_mode)


def _refuse_odd(path: str, state: os.stat_result) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise ToolError(f"{path} is a folder")
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(f"{path} is no plain file")
    if state.st_nlink > 1:
        raise ToolError(f"{path} has several names (hard links): copy it first")


def _write(at: FolderEntry, content: bytes) -> None:
    before = _look(at)
    if at.is_workspace:
        raise ToolError("the workspace is a folder")
    if before is not None:
        _refuse_odd(at.path, before)
    mode = stat.S_IMODE(before.st_mode) & 0o777 if before is not None else _NEW_MODE
    unfinished = TEMPORARY + os.urandom(8).hex()
    descriptor = os.open(unfinished, _NEW_FILE, mode, dir_fd=at.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:  # the umask took of it
                os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(unfinished, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=at.folder)
        raise


def _listed(path: str, state: os.stat_result) -> Listed:
    return Listed(path, stat.S_ISDIR(state.st_mode), stat.S_ISLNK(state.st_mode), state.st_size, state.st_mtime)
