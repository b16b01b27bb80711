"""The JSON Schemas of tools' arguments, in few words. Pure and light: sub-agents load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Describe an object of these properties, of which some must be there."""
    needs = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), **needs}


def text_schema(chars_max: int, *, chars_min: int = 1) -> dict[str, Any]:
    """Describe a text; it may be empty only where `chars_min` is 0."""
    return {"type": "string", "minLength": chars_min, "maxLength": chars_max}
