"""A JSON object read field by field: what has a default may be missing or null, everything else is exact. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, TypeVar

_Made = TypeVar("_Made")
_WHOLE_MAX: Final = 2**63 - 1
"""What every reader of JSON, database and limit of the system can hold."""


class BadRow(Exception):
    """A field that is missing or something else than it should be; the message names the field, never its value."""


class Row:
    """One object. Every reading raises `BadRow`; a `default` is for a field that is missing or null."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found

    def text(self, name: str, default: str | None = None) -> str:
        """A text, which may be empty."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise BadRow(f"{name} is no text")
        return value

    def one_of(self, name: str, known: Set[str]) -> str:
        """One of these words."""
        value = self.text(name)
        if value not in known:
            raise BadRow(f"{name} is none of {', '.join(sorted(known))}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; none if it is missing."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise BadRow(f"{name} is no list of texts")
        return tuple(values)

    def json_text(self, name: str) -> str:
        """A value as its JSON text. Whoever wrote an object instead meant its text; "" if it is missing."""
        value = self._value(name, "")
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else self.text(name, "")

    def whole(self, name: str, default: int) -> int:
        """A whole number that is not negative."""
        value = self.amount(name, default)
        if not float(value).is_integer():
            raise BadRow(f"{name} is no whole number")
        return int(value)

    def amount(self, name: str, default: float) -> float:
        """A number that is not negative."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadRow(f"{name} is no number")
        if not 0 <= value <= _WHOLE_MAX:
            raise BadRow(f"{name} is out of bounds")
        return value

    def claim(self, name: str, *, otherwise: bool) -> bool:
        """True or false."""
        value = self._value(name, otherwise)
        if not isinstance(value, bool):
            raise BadRow(f"{name} is neither true nor false")
        return value

    def mapping(self, name: str, default: Mapping[str, Any]) -> Mapping[str, Any]:
        """An object as it is."""
        value = self._value(name, default)
        if not isinstance(value, Mapping):
            raise BadRow(f"{name} is no object")
        return value

    def inner(self, name: str) -> Row:
        """An object to be read on; an empty one if it is missing."""
        return Row(self.mapping(name, {}))

    def each(self, name: str, read: Callable[[Row], _Made]) -> tuple[_Made, ...]:
        """A list of objects, each read; none if it is missing."""
        values = self._list(name)
        if not all(isinstance(value, Mapping) for value in values):
            raise BadRow(f"{name} is no list of objects")
        return tuple(read(Row(value)) for value in values)

    def _list(self, name: str) -> list[Any]:
        value = self._value(name, [])
        if not isinstance(value, list):
            raise BadRow(f"{name} is no list")
        return value

    def _value(self, name: str, default: object) -> Any:
        value = self._found.get(name)
        if value is not None:
            return value
        if default is None:
            raise BadRow(f"{name} is missing")
        return default
