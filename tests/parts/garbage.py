"""What only a search for garbage would free: objects of ours that keep each other."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

OURS = ("agent.", "channels.", "gateway.")


@contextlib.contextmanager
def garbage_of_ours() -> Iterator[set[str]]:
    """Fill what is yielded with the classes of ours that the block has left as garbage."""
    left: set[str] = set()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield left
        gc.collect()
        left.update(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
        left.difference_update([name for name in left if not name.startswith(OURS)])
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
