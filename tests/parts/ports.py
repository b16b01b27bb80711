"""Ports for servers that listen only later, or again after a death.

A port that the system chose may be chosen again as soon as it is let go: for another test's server, or as the near end
of any connection, that of a client which calls the dead server among them. So these come from below the range that
the system chooses from, and each process of the tests has a block of them to itself.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import random
import socket
from collections.abc import Iterator
from typing import Final

LOOPBACK: Final = "127.0.0.1"
FIRST: Final = 20_000
BLOCK: Final = 100  # many times what one test needs at once
BLOCKS: Final = 100  # up to 30,000; Linux chooses from 32,768 on


def free_port() -> int:
    """A port of loopback that nobody listens on, and that nobody else is given while this process lives. It comes
    again after all others of the block."""
    return next(port for port in itertools.islice(_block(), BLOCK) if _is_free(port))


def free_ports(count: int) -> list[int]:
    """Several, none twice; at most `BLOCK`."""
    return [free_port() for _ in range(count)]


@functools.cache
def _block() -> Iterator[int]:
    """This process's ports, over and over. A name that ends with it keeps other processes from them."""
    for number in random.Random().sample(range(BLOCKS), BLOCKS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0trivet-test-ports-{number}")
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        first = FIRST + number * BLOCK
        return itertools.cycle(range(first, first + BLOCK))
    raise AssertionError("every block of ports is taken")


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((LOOPBACK, port)):
            return True
    except OSError:
        return False
