"""What a program prints, kept from both ends while it runs: memory stays bounded however much comes. Pure."""

from __future__ import annotations

from typing import Final

from agent.limits import TOOL_OUTPUT_BYTES_MAX
from gateway.scrub.cutting import without_broken_end, without_broken_start

_HALF: Final = TOOL_OUTPUT_BYTES_MAX // 2


class Output:
    """The first and the last bytes of a stream, and how many there were in all."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._bytes += len(chunk)
        room = _HALF - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * _HALF:
            del self._tail[:-_HALF]

    def text(self) -> str:
        """Everything, or head and tail with a word on what is missing between them, and with no half of a secret."""
        if self._bytes <= 2 * _HALF:
            return (self._head + self._tail).decode(errors="replace")
        head = without_broken_end(self._head.decode(errors="replace"))
        tail = without_broken_start(self._tail[-_HALF:].decode(errors="replace"))
        return f"{head}\n[… of {self._bytes} bytes only the beginning and the end were kept …]\n{tail}"
