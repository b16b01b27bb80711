"""Whose call it is: a user's conversation, or a sub-agent of one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Lineage:
    """`session_id` is the session in which a call is made; `task_id` the sub-agent that makes it, "" for none;
    `depth` how many sub-agents stand between it and the user."""

    session_id: str = ""
    task_id: str = ""
    depth: int = 0


NOBODYS: Final = Lineage()
