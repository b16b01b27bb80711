"""Whether an interaction that came by HTTP comes from Discord, and now (developer documentation, "Interactions
Overview", "Validating Security Request Headers"). Pure."""

from __future__ import annotations

import re
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

REPLAY_WINDOW_S: Final = 300  # Discord names none; an interaction's token is good for longer, its first answer is not
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_SIGNATURE: Final = re.compile(r"[0-9a-fA-F]{128}")


def is_worth_reading(*, timestamp: str, signature: str, now_s: int) -> bool:
    """True when a request is less than five minutes old and signed, whoever did it: its body tells. Never raises."""
    is_fresh = bool(_SECONDS.fullmatch(timestamp)) and abs(now_s - int(timestamp)) <= REPLAY_WINDOW_S
    return is_fresh and bool(_SIGNATURE.fullmatch(signature))


def is_genuine(public_key: str, *, timestamp: str, signature: str, body: bytes, now_s: int) -> bool:
    """True for a body that Discord signed less than five minutes ago, by its clock or ours. Never raises for anything
    that a request may hold; `public_key` is the application's, in hexadecimal."""
    if not is_worth_reading(timestamp=timestamp, signature=signature, now_s=now_s):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), timestamp.encode() + body)
    except (InvalidSignature, ValueError):  # ValueError: no point of the curve
        return False
    return True
