"""For which turn files are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.model.client import Permit
from gateway.contracts.entries import Session


@dataclass(frozen=True, slots=True)
class Occasion:
    """A turn of `session`. All texts that came along may take `tokens_max` of its prompt; `sees` says whether its model
    understands images; `language` is what its author's platform says, as an IETF tag."""

    session: Session
    turn_id: str
    tokens_max: int
    sees: bool
    language: str = ""
    permit: Permit = field(compare=False, repr=False, kw_only=True)
