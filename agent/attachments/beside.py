"""What was made of a file, kept beside it in the workspace: a turn that is taken again pays for it no second time, and
the file tools read on where a prompt had no room. Everything here blocks: call it in a thread."""

from __future__ import annotations

from typing import Final

import structlog

from agent.limits import DOCUMENT_BYTES_MAX, IMAGE_BYTES_MAX
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, joined, own_words

_log = structlog.get_logger(__name__)
_TEXT: Final = own_words(".txt")
_SMALL: Final = own_words(".small.jpg")


def text_path(path: CleanText) -> CleanText:
    """Where the text of a file lies."""
    return joined(path, _TEXT)


def small_path(path: CleanText) -> CleanText:
    """Where the smaller one of an image lies."""
    return joined(path, _SMALL)


def kept_text(workspace: Workspace, path: CleanText) -> str | None:
    """The text of a file that was read before. Its owner may have changed it since."""
    content = kept(workspace, text_path(path), bytes_max=DOCUMENT_BYTES_MAX)
    return None if content is None else content.decode(errors="replace")


def kept(workspace: Workspace, path: CleanText, *, bytes_max: int = IMAGE_BYTES_MAX) -> bytes | None:
    """What was put there."""
    try:
        return workspace.read_if_there(path, bytes_max=bytes_max)
    except ToolError:
        return None


def keep(workspace: Workspace, path: CleanText, content: bytes) -> bool:
    """Put it there. False where there is no room: then it was made for this turn only."""
    try:
        with workspace.lock:
            workspace.write(path, content, bytes_max=len(content))
    except ToolError as error:
        _log.info("attachment.not_kept", reason=str(error))
        return False
    return True
