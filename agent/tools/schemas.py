"""What a model is told of a schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_BOUNDS: Final = frozenset(
    {
        *("minLength", "maxLength", "pattern", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "additionalProperties"),
    }
)


def without_bounds(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same shape without the bounds of its values: they would stand in every prompt, and a model that oversteps one
    is told so. Arguments still have to fit the schema itself."""
    return {name: _told(name, value) for name, value in schema.items() if name not in _BOUNDS}


def _told(name: str, value: Any) -> Any:
    if name == "properties":  # the names below are the model's to use, whatever they are called
        return {field: without_bounds(of_field) for field, of_field in value.items()}
    return without_bounds(value) if isinstance(value, dict) else value
