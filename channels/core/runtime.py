"""One enabled channel: its adapter, intake, deliveries, typing indicators and reports.

The parts are supervised one by one: a part that fails for an unforeseen reason is started again, and only a platform
that rejects our credentials ends the whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from channels.core.adapter import CONNECTED, ChannelAdapter, SupportsDownloads, SupportsMenus
from channels.core.admission import BotLoopGuard
from channels.core.attempt import SendRules
from channels.core.delivery import DeliveryDispatcher, ReplyDelivery
from channels.core.downloads import AttachmentServer
from channels.core.intake import DeferredReplies, IntakeConfig, IntakeDeps, MessageIntake
from channels.core.lease import SOMEBODY_ELSE, LeaseValidity
from channels.core.places import AddressResolver, PlaceTrackingHandler
from channels.core.preview import AnswerStreams, StreamingAdapter
from channels.core.rate_limit import LaneLocks
from channels.core.secrets import Deletions
from channels.core.tasks import Backoff, first_to_end
from channels.core.typing import TypingIndicators
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.config import Settings
from gateway.contracts.errors import BusUnavailable, CredentialsRejected, DeliveryError, RateLimited
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import Activity, DeliveryState, Reply
from gateway.limits import CHANNEL_REPORT_TTL_S
from gateway.packages import HookPoint
from gateway.plugins import HookEvent

log = logging.getLogger(__name__)

REPORT_EVERY_S: Final = CHANNEL_REPORT_TTL_S / 4
HOOK_POINTS: Final = (HookPoint.AFTER_NORMALIZE, HookPoint.ON_DELIVERY)
"""The points at which plug-ins are asked in this process."""

LOOK_EVERY_S: Final = 0.25  # a change of state is reported at once
RESTART_FIRST_S: Final = 0.5
RESTART_CAP_S: Final = 30.0


async def connect_bus(settings: Settings) -> RedisBus:
    """Connect to the bus as a process with channels uses it. Raises what `open_bus` raises."""
    return await open_bus(
        settings.redis.url or embedded_url(settings.data_dir),
        lane_messages_max=settings.queue.lane_messages_max,
        queue_messages_max=settings.queue.messages_max,
        user_turns_max=settings.queue.user_turns_max,
        wait_replicas=settings.redis.wait_replicas,
    )


@dataclass(frozen=True, slots=True)
class ChannelConfig(IntakeConfig):
    """The configuration of one channel, including that of its intake."""

    sends: SendRules = field(default_factory=SendRules)
    deletes_inbound: bool = False
    streams: bool = True
    hears_bots: bool = False


# The menu of a platform's commands.

MENU_RETRY_FIRST_S: Final = 5.0
MENU_RETRY_CAP_S: Final = 3_600.0  # people can type what no menu offers


class MenuPublisher:
    """Publishes the menu of one account, once in the life of a process. A menu that cannot be set does not stop the
    channel: it is tried again, more and more rarely."""

    def __init__(self, adapter: ChannelAdapter, publishing: SupportsMenus) -> None:
        self._adapter = adapter
        self._publishing = publishing

    async def run(self) -> None:
        """Keep the menu published until cancelled."""
        backoff = Backoff(MENU_RETRY_FIRST_S, MENU_RETRY_CAP_S)
        while True:
            pause_s = await self._publish(backoff)
            if pause_s is None:
                break
            await asyncio.sleep(pause_s)
        await asyncio.Event().wait()  # nothing more to do until the end of the line

    async def _publish(self, backoff: Backoff) -> float | None:
        """Publish the menu; return None once it is done, otherwise the pause before the next attempt."""
        await self._adapter.until_ready()
        try:
            await self._publishing.publish_menu()
        except RateLimited as error:
            return max(error.retry_after_s, backoff.next_s())
        except DeliveryError as error:
            log.warning("%s: the menu of commands stays as it was: %s", self._adapter.name, error)
        except Exception:  # named boundary, adapter callback: a menu is worth no outage
            log.exception("%s: the menu of commands stays as it was", self._adapter.name)
        else:
            return None
        return backoff.next_s()


# The channel with all its parts.


class ChannelRuntime:
    """One run of one channel."""

    def __init__(
        self, adapter: ChannelAdapter, bus: RedisBus, deps: IntakeDeps, config: ChannelConfig, *, consumer: str
    ) -> None:
        deliveries, places, scrubber, clock = bus.deliveries, bus.places, deps.scrubber, deps.clock
        addresses, validity, lane_locks = AddressResolver(adapter, places), LeaseValidity(), LaneLocks()
        self._adapter = adapter
        self._operator = bus.operator
        self._hooks = deps.hooks
        self._scrubber = scrubber
        self._clock = clock
        self._rejection: str | None = None
        self._typing = TypingIndicators(adapter, deliveries, clock, also=self._follow)
        self._deletions = Deletions(adapter, bus.intake, deliveries, clock) if config.deletes_inbound else None
        self._attachments = (
            AttachmentServer(adapter, bus.files, scrubber) if isinstance(adapter, SupportsDownloads) else None
        )
        self._menu = MenuPublisher(adapter, adapter) if isinstance(adapter, SupportsMenus) else None
        self._deferred_replies = DeferredReplies(adapter)
        self._intake = MessageIntake(
            deps,
            config,
            accepted=self._typing.accepted,
            retracted=self._retracted,
            delete=self._deletions.add if self._deletions is not None else None,
            deferred_replies=self._deferred_replies,
        )
        self._handler = PlaceTrackingHandler(
            self._intake, adapter, places, BotLoopGuard(places) if config.hears_bots else None
        )
        self._streams = (
            AnswerStreams(
                adapter, deliveries, places, scrubber, clock, addresses, validity, lane_locks, shows=config.streams
            )
            if isinstance(adapter, StreamingAdapter)
            else None
        )
        delivery = ReplyDelivery(
            adapter,
            deliveries,
            places,
            bus.files,
            scrubber,
            clock,
            addresses,
            validity,
            rules=config.sends,
            answering=self._answering,
            ended=self._ended,
        )
        self._dispatcher = DeliveryDispatcher(
            adapter,
            deliveries,
            delivery,
            addresses,
            validity,
            consumer=consumer,
            lane_locks=lane_locks,
            coming=self._streams.coming if self._streams else lambda reply: None,
        )

    @property
    def state(self) -> str:
        """Return `connected`, or a plain reason."""
        return self._rejection or self._adapter.state

    async def run(self) -> None:
        """Work until cancelled. Raises `CredentialsRejected`."""
        try:
            await first_to_end(
                self._kept_up("adapter", lambda: self._adapter.run(self._handler)),
                self._kept_up("delivery", self._dispatcher.run),
                self._kept_up("indicators", self._typing.run),
                self._kept_up("promises", self._deferred_replies.run),
                *((self._kept_up("streams", self._streams.run),) if self._streams is not None else ()),
                *((self._kept_up("menu", self._menu.run),) if self._menu is not None else ()),
                *((self._kept_up("deletions", self._deletions.run),) if self._deletions is not None else ()),
                *((self._kept_up("fetching", self._attachments.run),) if self._attachments is not None else ()),
                self.report(),
            )
        except CredentialsRejected as error:
            self._rejection = str(error)
            raise

    async def report(self) -> None:
        """Tell the operator's side how this channel is, every few seconds and at every change.

        A process on standby says nothing: the process that listens speaks for the account."""
        told, due_s = "", 0.0
        while True:
            state, now_s = self.state, self._clock.monotonic_s()
            if state != SOMEBODY_ELSE and (state != told or now_s >= due_s):
                try:
                    shown = state if state == CONNECTED else self._scrubber.scrub(state)
                    await self._operator.report_channel(self._adapter.name, shown, ttl_s=CHANNEL_REPORT_TTL_S)
                    told, due_s = state, now_s + REPORT_EVERY_S
                except BusUnavailable:
                    log.debug("%s: nobody can be told how it is", self._adapter.name)
            await asyncio.sleep(LOOK_EVERY_S)

    async def stop(self, *, grace_s: float) -> None:
        """Take nothing more in, let the sends in flight arrive; then `run` may be cancelled."""
        self._intake.close()
        streams = () if self._streams is None else (self._streams.drain(grace_s=grace_s),)
        await asyncio.gather(self._dispatcher.drain(grace_s=grace_s), *streams)

    def _answering(self, reply: Reply) -> None:
        self._typing.answering(reply)
        self._deferred_replies.answering(reply)

    async def _ended(self, reply: Reply, state: DeliveryState) -> None:
        event = HookEvent(HookPoint.ON_DELIVERY, reply.text, reply.key, reply.id, state.value)
        await self._hooks.gathered(event, self._scrubber.scrub)

    def _follow(self, activity: Activity) -> None:
        if self._streams is not None:
            self._streams.heard(activity)

    def _retracted(self, message_id: str) -> None:
        """End the indicator and the streams of the turn of that message: there is no such turn any more, whether or not
        somebody works at it."""
        turn_id = turn_id_of(message_id)
        self._typing.ended(turn_id)
        if self._streams is not None:
            self._streams.ended(turn_id)

    async def _kept_up(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(RESTART_FIRST_S, RESTART_CAP_S)
        while True:
            try:
                await run()
                if self._dispatcher.is_draining:
                    await asyncio.Event().wait()  # the end of the line is for `stop` to say
            except CredentialsRejected:
                raise
            except Exception:  # named boundary, supervisor child: whatever it was, the channel goes on
                log.exception("%s: the %s failed and starts again", self._adapter.name, part)
            await asyncio.sleep(backoff.next_s())
