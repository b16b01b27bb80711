"""Whether a request comes from Slack, and now (docs.slack.dev, "Verifying requests from Slack"). Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

REPLAY_WINDOW_S: Final = 300
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


def is_genuine(secret: str, *, timestamp: str, signature: str, body: bytes, now_s: int) -> bool:
    """True for a body that Slack signed less than five minutes ago, by its clock or ours. Never raises."""
    if not _SECONDS.fullmatch(timestamp) or abs(now_s - int(timestamp)) > REPLAY_WINDOW_S:
        return False
    said = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))
