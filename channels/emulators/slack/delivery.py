"""How events leave Slack: one attempt after another until somebody acknowledges, then they are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from channels.emulators.slack.switches import Switches
from channels.emulators.traffic import RECORDED_MAX, Json


@dataclass(slots=True, eq=False)
class Parcel:
    """What the app is to receive. `kind` is the envelope type: `events_api`, `slash_commands` or `interactive`.

    Only events are sent again; a command or a button whose three seconds pass shows its person an error.
    """

    kind: str
    payload: Json
    accepts_response: bool = False
    on_response: Callable[[Json], None] | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_retried(self) -> bool:
        return self.kind == "events_api"

    def answer(self, response: Json | None) -> None:
        """The app took it; `response` is what it put into the acknowledgement. Only the first answer counts."""
        if not self.answered.is_set():
            self.answered.set()
            if response and self.on_response is not None:
                self.on_response(response)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt was not acknowledged, in the words of `x-slack-retry-reason`."""

    reason: str
    is_final: bool = False


class Transport(Protocol):
    async def attempt(self, parcel: Parcel, *, number: int, reason: str) -> Failure | None:
        """Send it once and wait for the acknowledgement. `number` is 0 for the first time."""
        ...


class Delivery:
    """Sends parcels concurrently, as Slack does: nobody promises an order."""

    def __init__(self, transport: Transport, switches: Switches) -> None:
        self.transport = transport
        self._switches = switches
        self._under_way: set[asyncio.Task[None]] = set()
        self.failures: deque[Failure] = deque(maxlen=RECORDED_MAX)
        self.lost: deque[Parcel] = deque(maxlen=RECORDED_MAX)

    @property
    def is_busy(self) -> bool:
        """Whether something is still waiting for its acknowledgement."""
        return bool(self._under_way)

    def send(self, parcel: Parcel, *, as_retry: bool = False) -> None:
        """Begin now. `as_retry`: the first attempt already looks like a repetition."""
        task = asyncio.create_task(self._deliver(parcel, first=int(as_retry)))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, parcel: Parcel, *, first: int) -> None:
        delays_s = self._switches.retry_after_s if parcel.is_retried else ()
        reason = "http_timeout" if first else ""
        for number, delay_s in enumerate((*delays_s, None), start=first):
            failure = await self.transport.attempt(parcel, number=number, reason=reason)
            if failure is None:
                return
            self.failures.append(failure)
            if delay_s is None or failure.is_final:
                break
            reason = failure.reason
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(parcel.answered.wait(), delay_s)
                return  # a late acknowledgement still counts
        self.lost.append(parcel)

    async def aclose(self) -> None:
        """Give up on what is still under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
