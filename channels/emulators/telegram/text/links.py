"""Which addresses the server accepts as the target of a link."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

_SCHEME: Final = re.compile(r"^([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_WEB: Final = frozenset({"http", "https", "ftp", "tonsite"})
_APP: Final = frozenset({"tg", "ton"})


def checked_link(url: str) -> str | None:
    """The address as the server keeps it, or None when it would not link there.

    A bare domain gets `http://`, a bare host a trailing slash; a host needs a dot; `javascript:` and
    other schemes are no links at all.
    """
    url = url.strip()
    if not url or any(character.isspace() for character in url):
        return None
    named = _SCHEME.match(url)
    if named and named[1].lower() in _APP:
        return url
    if named is None or "." in named[1]:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme.lower() not in _WEB or not ("." in host.strip(".") or ":" in host):
        return None
    return url if parts.path or parts.query or parts.fragment else f"{url}/"


def mentioned_user(url: str) -> int:
    """The user id of a `tg://user?id=…` link, 0 for any other."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return 0
    if parts.scheme.lower() != "tg" or parts.netloc != "user":
        return 0
    given = parse_qs(parts.query).get("id", [""])[0]
    return int(given) if given.isdecimal() else 0


def custom_emoji(url: str) -> str:
    """The emoji id of a `tg://emoji?id=…` link, "" for any other."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    if parts.scheme.lower() != "tg" or parts.netloc != "emoji":
        return ""
    given = parse_qs(parts.query).get("id", [""])[0]
    return given if given.isdecimal() else ""
