"""What came along with a message, as far as somebody without eyes and ears can tell. Pure."""

from __future__ import annotations

import re
from typing import Final

CAME_WITH: Final = re.compile(r"<context>\n.*?\n</context>", re.DOTALL)
_ELEMENT: Final = re.compile(
    r"^<(?P<name>quoted|image|file|voice)(?P<head>[^<>\n]*?)(?:/>|>\n(?P<inside>.*?)\n</(?P=name)>)",
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"]*)"')


def what_came(text: str) -> list[str]:
    """A sentence for each thing that came with the newest message, whose whole text is `text`."""
    elements = (match for context in CAME_WITH.findall(text) for match in _ELEMENT.finditer(context))
    return [_got(*match.group("name", "head", "inside")) for match in elements]


def _got(name: str, head: str, inside: str | None) -> str:
    told = dict(_ATTRIBUTE.findall(head))
    first_line = next((line for line in (inside or "").splitlines() if line.strip()), "")
    if name == "quoted":
        return f"You quoted {told.get('by') or 'somebody'}: {first_line}"
    if "path" not in told:
        return f"I got no file: {first_line}"
    kind = f"{told['type'].rpartition('/')[2].upper()}, {told['size']}"
    match name:
        case "image":
            return f"I got an image ({kind})."
        case "voice":
            return f"I got a recording ({kind})."
        case _:
            return f"I got a file ({kind})." + (f" It begins: {first_line}" if first_line else "")
