"""Text as Slack stores it, made readable. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from channels.normalized import apart

TOKEN: Final = re.compile(r"<([^<>\s|][^<>|]*)(?:\|([^<>]*))?>")
"""What stands in angle brackets: a mention, a channel, a call, a link; and its label."""

_SHOWN_BY_NAME: Final = ("@", "#", "!")


def readable(content: str, names: Mapping[str, str]) -> str:
    """Mentions by name, links with their address, and only then the entities: an escaped `<@U1>` that a
    person typed is no mention."""

    def shown(match: re.Match[str]) -> str:
        words = _token(match[1], match[2] or "", names)
        return apart(words, match) if match[1].startswith(_SHOWN_BY_NAME) else words

    return unescaped(TOKEN.sub(shown, content))


def unescaped(content: str) -> str:
    """Slack escapes these three and nothing else."""
    return content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _token(link: str, label: str, names: Mapping[str, str]) -> str:
    sign, name = link[:1], link[1:]
    if sign == "@":
        return f"@{label or names.get(name, name)}"
    if sign == "#":
        return f"#{label or name}"
    if sign == "!":
        return label or "@" + name.partition("^")[0]
    if link == f"http://{label}":  # Slack takes any word with a dot for an address: this is what was typed
        return label
    address = link.removeprefix("mailto:").removeprefix("tel:")
    is_same = label in ("", link, address, link.removeprefix("https://"))
    return address if is_same else f"{label} ({address})"


def mentioned(content: str) -> Iterator[str]:
    """The ids of the people whom a text names."""
    return (match[1][1:] for match in TOKEN.finditer(content) if match[1].startswith("@"))
