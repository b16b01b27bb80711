"""The commands that never wait behind work. All others are the agent's business. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.contracts.messages import ControlKind

_CONTROL: Final = re.compile(r"/(?P<name>[a-z]+)(?:@\w+)?", re.IGNORECASE | re.ASCII)


def control_kind(text: str) -> ControlKind | None:
    """What `/stop` or `/status` asks for when the message is nothing else."""
    match = _CONTROL.fullmatch(text.strip())
    if match is None:
        return None
    name = match["name"].lower()
    return ControlKind(name) if name in set(ControlKind) else None
