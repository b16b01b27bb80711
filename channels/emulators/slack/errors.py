"""Slack's errors: always HTTP 200 with `ok` false and a word, except the rate limit."""

from __future__ import annotations

from channels.emulators.traffic import Json


class Refused(Exception):
    """The method is answered with this error; `more` goes into the body beside it."""

    def __init__(self, error: str, **more: object) -> None:
        super().__init__(error)
        self.error = error
        self.more: Json = more

    def body(self) -> Json:
        return {"ok": False, "error": self.error} | self.more


def missing_argument(name: str) -> Refused:
    return Refused("invalid_arguments", response_metadata={"messages": [f"[ERROR] missing required field: {name}"]})


def invalid_blocks(*messages: str) -> Refused:
    return Refused(
        "invalid_blocks", errors=list(messages), response_metadata={"messages": [f"[ERROR] {m}" for m in messages]}
    )


class RateLimited(Exception):
    """429: come back after so many whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"after {retry_after_s} s")
        self.retry_after_s = retry_after_s
