"""What a message's text mentions, and what the sender allowed it to ping. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from channels.emulators.discord.errors import invalid_form
from channels.emulators.traffic import Json

ALLOWED_LIST_MAX: Final = 100

_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_USER: Final = re.compile(r"<@!?(\d+)>")
_ROLE: Final = re.compile(r"<@&(\d+)>")
_EVERYONE: Final = re.compile(r"@(?:everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Mentions:
    users: tuple[int, ...] = ()
    roles: tuple[int, ...] = ()
    everyone: bool = False


def mentions_in(content: str) -> Mentions:
    """Everything the text names, outside code: Discord pings nobody from inside a code block."""
    spoken = _CODE.sub(" ", content)
    return Mentions(
        users=tuple(dict.fromkeys(int(found) for found in _USER.findall(spoken))),
        roles=tuple(dict.fromkeys(int(found) for found in _ROLE.findall(spoken))),
        everyone=_EVERYONE.search(spoken) is not None,
    )


def allowed(found: Mentions, permit: Json | None, *, replied_to: int | None) -> Mentions:
    """What is left after `allowed_mentions`; without one, everything, and the author of the message replied to.

    Raises `Refused` (50035) for a permit that Discord rejects.
    """
    if permit is None:
        users = found.users if replied_to is None else (*found.users, replied_to)
        return Mentions(tuple(dict.fromkeys(users)), found.roles, found.everyone)
    parse = permit.get("parse") or []
    users = _permitted(found.users, "users", parse, permit)
    roles = _permitted(found.roles, "roles", parse, permit)
    if replied_to is not None and permit.get("replied_user"):
        users = (*users, replied_to)
    return Mentions(tuple(dict.fromkeys(users)), roles, found.everyone and "everyone" in parse)


def _permitted(found: tuple[int, ...], kind: str, parse: list[str], permit: Json) -> tuple[int, ...]:
    listed = [int(item) for item in permit.get(kind) or []]
    if len(listed) > ALLOWED_LIST_MAX:
        raise invalid_form(f"allowed_mentions.{kind}", "BASE_TYPE_BAD_LENGTH", "Must be between 0 and 100 in length.")
    if kind in parse and listed:
        raise invalid_form(
            "allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", f'parse:["{kind}"] and {kind}: exclude.'
        )
    return found if kind in parse else tuple(item for item in found if item in listed)
