"""Which commands the menu of a platform offers, to whom. Pure."""

from __future__ import annotations

from typing import Final

from gateway.contracts.commands import COMMANDS, CommandSpec
from gateway.contracts.entries import GrantRole

_FOR_ALL: Final = frozenset({GrantRole.GUEST, GrantRole.MEMBER})  # no menu can tell one from the other


def offered(*, is_admin: bool = False, is_private: bool = True) -> tuple[CommandSpec, ...]:
    """In order: what everybody, or an admin, is offered in a direct chat, or where others read along."""
    return tuple(
        spec
        for spec in COMMANDS
        if spec.is_in_menu and (is_admin or spec.role in _FOR_ALL) and (is_private or not spec.only_private)
    )
