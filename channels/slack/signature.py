"""Whether a request comes from Slack, and now (docs.slack.dev, "Verifying requests from Slack"). Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

REPLAY_WINDOW_S: Final = 300
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}")


def is_worth_reading(*, timestamp: str, signature: str, now_s: int) -> bool:
    """True when a request is less than five minutes old and signed, whoever did it: its body tells. Never raises."""
    is_fresh = bool(_SECONDS.fullmatch(timestamp)) and abs(now_s - int(timestamp)) <= REPLAY_WINDOW_S
    return is_fresh and bool(_SIGNATURE.fullmatch(signature))


def is_genuine(secret: str, *, timestamp: str, signature: str, body: bytes, now_s: int) -> bool:
    """True for a body that Slack signed less than five minutes ago, by its clock or ours. Never raises."""
    if not is_worth_reading(timestamp=timestamp, signature=signature, now_s=now_s):
        return False
    said = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))
