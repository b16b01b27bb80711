"""The tree that is drawn in `gateway/contracts/errors.py` is the tree of its classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.contracts import errors
from gateway.contracts.errors import TrivetError


def drawn() -> Iterator[tuple[str, str]]:
    """Yield each drawn class and the one it is drawn under."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:[│├└─ ]{4})*)([A-Z]\w+(?:, [A-Z]\w+)*)", line)
        if found:
            depth = len(found[1]) // 4
            names = found[2].split(", ")
            yield from ((name, above[depth - 1] if depth else "Exception") for name in names)
            above[depth:] = [names[-1]]


def descendants(kind: type[Exception]) -> Iterator[tuple[str, str]]:
    """Yield each class of the module below `kind`, and its parent."""
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child.__name__, kind.__name__
            yield from descendants(child)


def test_every_error_is_drawn_below_its_parent() -> None:
    assert set(drawn()) == {("TrivetError", "Exception"), *descendants(TrivetError)}
