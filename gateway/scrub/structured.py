"""Clean text inside of structures: every text in a document of lists and objects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.contracts.messages import CleanText


def each_text(value: Any, clean: Callable[[str], CleanText]) -> Any:
    """`value` with every text in it cleaned, each by itself; the names of an object's fields are left as they are."""
    match value:
        case str():
            return clean(value)
        case Mapping():
            return {name: each_text(inner, clean) for name, inner in value.items()}
        case list() | tuple():
            return [each_text(inner, clean) for inner in value]
        case _:
            return value
