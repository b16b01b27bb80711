"""What a platform brings by HTTP, where it calls us instead of being listened to: plain values and one Protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

COME_AGAIN_S: Final = 1  # Telegram would double its pauses up to a minute, and hold up the chat meanwhile


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Names of headers are lower case.

    `body` is as it came, since signatures cover its bytes. It is read when it is asked for: whoever sees by the headers
    that a call is not the platform's asks for none, so that strangers fill no memory.
    """

    headers: Mapping[str, str] = field(repr=False)
    body: Callable[[], Awaitable[bytes]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What the platform is told. Any 2xx means that it need not bring this again."""

    status: int = 200
    body: str = ""
    media_type: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Callable[[], None] = lambda: None
    """Called when the answer is on its way."""


def come_again() -> CallAnswer:
    """Not now. Every platform brings it again, the interactions of Discord excepted."""
    return CallAnswer(503, headers={"Retry-After": str(COME_AGAIN_S)})


@runtime_checkable
class SupportsCalls(Protocol):
    """A platform that may call us. Any process of ours may be called, whoever else is."""

    @property
    def is_called(self) -> bool:
        """Whether it does, as it is configured."""
        ...

    @property
    def call_timeout_s(self) -> float:
        """How long it waits for an answer, from the end of its body on; a little less than that."""
        ...

    async def called(self, call: Call) -> CallAnswer:
        """Returns after the bus has what the call brought, if it is genuine. Raises `BusUnavailable`: the platform is
        asked to bring it again."""
        ...
