"""What a program prints, kept from both ends while it runs: memory stays bounded however much comes. Pure."""

from __future__ import annotations

from agent.limits import TOOL_OUTPUT_BYTES_MAX
from gateway.scrub.cutting import without_broken_end, without_broken_start


class Output:
    """The first and the last bytes of a stream, and how many there were in all."""

    def __init__(self, bytes_max: int = TOOL_OUTPUT_BYTES_MAX) -> None:
        self._half = bytes_max // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._bytes += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """Everything, or head and tail with a word on what is missing between them, and with no half of a secret."""
        if self._bytes <= 2 * self._half:
            return (self._head + self._tail).decode(errors="replace")
        head = without_broken_end(self._head.decode(errors="replace"))
        tail = without_broken_start(self._tail[-self._half :].decode(errors="replace"))
        return f"{head}\n[… of {self._bytes} bytes only the beginning and the end were kept …]\n{tail}"
