"""A child's end of the two pipes to its parent, out of reach of everything else in the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from agent.subagents.wire.codec import FrameReader, Unread, encoded
from agent.subagents.wire.frames import PIECE_BYTES, Frame, ToParent


class Pipes:
    """Takes standard input and output away from the process: who reads from now on finds nothing, and what anybody
    prints goes to standard error. Both pipes close with the process."""

    def __init__(self) -> None:
        self._source, self._sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._whole = threading.Lock()

    def frames(self) -> Iterator[Frame | Unread]:
        """What the parent says, until it closes its end. Blocks."""
        reader = FrameReader()
        while piece := os.read(self._source, PIECE_BYTES):
            yield from reader.feed(piece)
        yield from reader.end()

    def send(self, frame: ToParent) -> None:
        """Say something, whole; waits for a parent that does not listen. Raises `FrameTooLong`, and `OSError` when the
        parent is gone."""
        left = memoryview(encoded(frame))
        with self._whole:
            while left:
                left = left[os.write(self._sink, left) :]
