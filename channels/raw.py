"""Reading the vendors' JSON without trusting it: what is missing or of the wrong kind reads as empty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from gateway.contracts.errors import BadEnvelope

Raw: TypeAlias = Mapping[str, Any]

_NOTHING: Final[Raw] = {}
_ID_MAX: Final = 2**63


def mapping(value: object) -> Raw:
    """The object, or an empty one."""
    return value if isinstance(value, Mapping) else _NOTHING


def mappings(value: object) -> Sequence[Raw]:
    """The objects in an array; everything else in it is left out."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def text(value: object) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    """A whole number that fits 64 bits; JSON's true and false are none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _ID_MAX:
        return value
    return None


def canonical(fields: Raw) -> str:
    """One JSON text per meaning: sorted keys, no spaces, nothing that is None."""
    kept = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def target_fields(target: str) -> Raw:
    """The inverse of `canonical`. Raises `BadEnvelope`."""
    try:
        fields = json.loads(target)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise BadEnvelope("a reply target that is no JSON object")
    return fields
