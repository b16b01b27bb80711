"""What goes out with a turn's answer besides its words: files, captured when the model asked for it.

They are held in memory until the turn is committed; then SQL has them. So a later edit changes nothing of what
is sent, and a turn that ends otherwise sends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.limits import SENT_BYTES_MAX, SENT_FILES_MAX
from gateway.contracts.entries import FileContent
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, ReplyFile


@dataclass(frozen=True, slots=True)
class Enclosed:
    """One captured file: its bytes as they will be sent. `caption` is plain text, "" for none."""

    name: CleanText
    media_type: str
    content: bytes = field(repr=False)
    caption: CleanText


class Enclosures:
    """The files of one turn, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._files: list[Enclosed] = []

    def add(self, file: Enclosed) -> None:
        """Take one more along. Raises `ToolError` when there are too many, or too many bytes."""
        if len(self._files) >= SENT_FILES_MAX:
            raise ToolError(f"{SENT_FILES_MAX} files go with this answer already, and that is the limit")
        if sum(len(each.content) for each in self._files) + len(file.content) > SENT_BYTES_MAX:
            raise ToolError(f"the files of one answer may have {SENT_BYTES_MAX} bytes together: this one is too many")
        self._files.append(file)

    @property
    def files(self) -> tuple[ReplyFile, ...]:
        """As they stand in the reply."""
        return tuple(ReplyFile(each.name, each.media_type, len(each.content), each.caption) for each in self._files)

    def contents(self, reply_id: str) -> tuple[FileContent, ...]:
        """As they are committed with the reply of this id."""
        return tuple(FileContent(reply_id, position, each.content) for position, each in enumerate(self._files))
