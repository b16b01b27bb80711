"""One change of a folder at a time, whoever makes it: threads of one process, and processes. Blocks."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from agent.limits import FOLDER_LOCK_LOOK_S, FOLDER_LOCK_S
from gateway.contracts.errors import ToolError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderLock:
    """`with lock:` waits until nobody else holds the lock of this folder; a thread that has it may take it again.

    What is locked is the folder itself, so nothing has to be made, and the kernel lets go for a process that dies.
    Raises `ToolError` when somebody holds it for FOLDER_LOCK_S: a process may have been stopped in the middle.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._threads = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._depth == 0:
                self._descriptor = _locked(self._folder)
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


def _locked(folder: Path) -> int:
    """An open folder that nobody else has locked."""
    descriptor = os.open(folder, _FOLDER)
    try:
        give_up_at = time.monotonic() + FOLDER_LOCK_S
        while not _is_ours(descriptor):
            if time.monotonic() > give_up_at:
                raise ToolError("somebody else is changing these files and does not come to an end: try again later")
            time.sleep(FOLDER_LOCK_LOOK_S)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_ours(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
