"""One enabled channel: its adapter, intake, deliveries, typing indicators and reports.

The parts are supervised one by one: a part that fails for an unforeseen reason is started again, and only a platform
that rejects our credentials ends the whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from channels.core.adapter import CONNECTED, ChannelAdapter, SupportsDownloads, SupportsMenus, SupportsTyping
from channels.core.admission import BotLoopGuard
from channels.core.attempt import SendRules
from channels.core.delivery import DeliveryDispatcher, ReplyDelivery
from channels.core.downloads import AttachmentServer
from channels.core.intake import DeferredReplies, IntakeConfig, IntakeDeps, MessageIntake
from channels.core.lease import SOMEBODY_ELSE, LeaseValidity
from channels.core.places import AddressResolver, PlaceTrackingHandler
from channels.core.preview import AnswerStreams, StreamingAdapter
from channels.core.rate_limit import LaneLocks, Pacer, Urgency
from channels.core.secrets import Deletions
from gateway.bounded_dict import BoundedDict
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.deliveries import Deliveries
from gateway.bus.embedded import embedded_url
from gateway.config import Settings
from gateway.contracts.errors import (
    AddressDead,
    BusUnavailable,
    CredentialsRejected,
    DeliveryError,
    RateLimited,
    TrivetError,
)
from gateway.contracts.ids import ReplyAddress, turn_id_of
from gateway.contracts.messages import Activity, DeliveryState, Reply
from gateway.contracts.ports import Clock
from gateway.limits import CHANNEL_REPORT_TTL_S
from gateway.packages import HookPoint
from gateway.plugins import HookEvent
from gateway.tasks import Backoff, first_to_end

log = logging.getLogger(__name__)

REPORT_EVERY_S: Final = CHANNEL_REPORT_TTL_S / 4
HOOK_POINTS: Final = (HookPoint.AFTER_NORMALIZE, HookPoint.ON_DELIVERY)
"""The points at which plug-ins are asked in this process."""

LOOK_EVERY_S: Final = 0.25  # a change of state is reported at once
RESTART_FIRST_S: Final = 0.5
RESTART_CAP_S: Final = 30.0
REJECTED_FIRST_S: Final = 5.0  # before a platform that let us in, and throws us out, is asked again
REJECTED_CAP_S: Final = 300.0


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


# Typing indicators while an answer is awaited; its turn owns them, so they always stop.
#
# The agent announces a running turn every few seconds with how long the announcement holds; a turn that dies stops
# announcing, and its indicator goes out by itself. An indicator that the platform shows for five seconds is shown
# again before it fades.

STATUS: Final = "is thinking…"
SHOWN_AFTER_S: Final = 0.8  # nobody misses an indicator for so long, and it costs a platform call like a send
ACCEPTED_FOR_S: Final = 8.0  # until the agent's first announcement; longer only when all workers are busy
REFUSED_FOR_S: Final = 600.0  # a place that shut us out is not asked again every few seconds
SHOWN_MAX: Final = 500  # lanes with an indicator at once: each costs a request every few seconds
ENDED_KEPT: Final = 2_000  # announcements are lossy and late; one of an answered turn must not light up again


@dataclass(slots=True)
class _Shown:
    """One lane's indicator and the turns that want it, each until when."""

    address: ReplyAddress
    until_s: dict[str, float] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class TypingIndicators:
    """The indicators of one channel. A platform without them costs nothing."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        clock: Clock,
        *,
        show_after_s: float = SHOWN_AFTER_S,
        also: Callable[[Activity], None] = lambda activity: None,
    ) -> None:
        """Call `also` with every announcement."""
        self._name = adapter.name
        self._typing = adapter if isinstance(adapter, SupportsTyping) else None
        self._bus = bus
        self._clock = clock
        self._show_after_s = show_after_s
        self._also = also
        self._shown: dict[str, _Shown] = {}
        self._ended: BoundedDict[str, None] = BoundedDict(ENDED_KEPT)
        self._pacer = Pacer(bus, adapter)
        self._refused_until_s: BoundedDict[str, float] = BoundedDict(SHOWN_MAX)

    async def run(self) -> None:
        """Follow the announcements until cancelled."""
        backoff = Backoff(0.5, 10.0)
        try:
            while True:
                try:
                    async for activity in self._bus.activities(self._name):
                        backoff.reset()
                        self.follow(activity)
                        self._also(activity)
                except BusUnavailable:
                    log.debug("%s: no indicators while the bus is away", self._name)
                await asyncio.sleep(backoff.next_s())
        finally:
            tasks = [shown.task for shown in self._shown.values() if shown.task is not None]
            for shown in tuple(self._shown.values()):
                self._out(shown)
            await asyncio.gather(*tasks, return_exceptions=True)

    def accepted(self, address: ReplyAddress) -> None:
        """Note that a message is on the bus: the person waits, whether or not a worker has claimed it."""
        self._show(address, "", ACCEPTED_FOR_S)

    def follow(self, activity: Activity) -> None:
        """Note that a turn runs, or ended."""
        if activity.ended:
            self._end(activity.address, activity.turn_id)
        elif activity.turn_id not in self._ended:
            self._show(activity.address, activity.turn_id, activity.for_s)

    def ended(self, turn_id: str) -> None:
        """Note that a turn ended, in any place."""
        self._ended[turn_id] = None
        for shown in [shown for shown in self._shown.values() if turn_id in shown.until_s]:
            self._end(shown.address, turn_id)

    def answering(self, reply: Reply) -> None:
        """Hide the indicator of the reply's turn, because the answer leaves now and the indicator would only outlive
        it. After a question the turn waits for a person, until the question is amended."""
        if reply.amends:
            self._ended.pop(reply.turn_id, None)
        else:
            self._end(reply.address, reply.turn_id)

    def _show(self, address: ReplyAddress, turn_id: str, for_s: float) -> None:
        if self._typing is None or self._is_refused(address):
            return
        shown = self._shown.get(address.lane)
        if shown is None:
            if len(self._shown) >= SHOWN_MAX:
                return
            shown = self._shown[address.lane] = _Shown(address)
            shown.task = asyncio.create_task(self._keep(shown, self._typing), name=f"{self._name}-typing")
        shown.address = address
        if turn_id:
            shown.until_s.pop("", None)
        shown.until_s[turn_id] = self._clock.monotonic_s() + for_s

    def _end(self, address: ReplyAddress, turn_id: str) -> None:
        if turn_id:
            self._ended[turn_id] = None
        shown = self._shown.get(address.lane)
        if shown is None:
            return
        shown.until_s.pop("", None)
        shown.until_s.pop(turn_id, None)
        if not shown.until_s:
            self._out(shown)

    def _out(self, shown: _Shown) -> None:
        del self._shown[shown.address.lane]
        task, shown.task = shown.task, None  # each would keep the other
        if task is not None:
            task.cancel()

    async def _keep(self, shown: _Shown, typing: SupportsTyping) -> None:
        """Show, wait, show again, until the last turn's time is up."""
        is_lit = False
        try:
            await asyncio.sleep(self._show_after_s)
            while (left_s := max(shown.until_s.values(), default=0.0) - self._clock.monotonic_s()) > 0:
                if await self._pacer.may_spend(typing.budgets(shown.address), Urgency.INDICATOR):
                    await typing.show_typing(shown.address, STATUS)
                    is_lit = True
                await asyncio.sleep(min(typing.typing_period_s, left_s))
            if is_lit:
                await typing.show_typing(shown.address, "")
        except AddressDead:
            self._refused_until_s[shown.address.lane] = self._clock.monotonic_s() + REFUSED_FOR_S
        except (DeliveryError, BusUnavailable) as error:
            log.debug("%s: no indicator: %s", self._name, error)
        except Exception:  # named boundary, adapter callback: an indicator is never worth a failure
            log.exception("%s: the indicator failed", self._name)
        if self._shown.get(shown.address.lane) is shown:
            del self._shown[shown.address.lane]

    def _is_refused(self, address: ReplyAddress) -> bool:
        return self._clock.monotonic_s() < self._refused_until_s.get(address.lane, 0.0)


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
        self._was_let_in = False
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
        """Work until cancelled. Raises `CredentialsRejected` if the platform never let us in: one in trouble throws out
        whom it knows, and lets us in again later."""
        backoff = Backoff(REJECTED_FIRST_S, REJECTED_CAP_S)
        while True:
            begun_s = self._clock.monotonic_s()
            try:
                await self._work()
            except CredentialsRejected as error:
                self._rejection = str(error)
                if not self._was_let_in:
                    raise
                log.error("%s: %s", self._adapter.name, error)  # noqa: TRY400 - the operator needs no traceback
            if self._clock.monotonic_s() - begun_s > REJECTED_CAP_S:
                backoff.reset()
            await first_to_end(self.report(), asyncio.sleep(backoff.next_s()))
            self._rejection = None

    async def _work(self) -> None:
        await first_to_end(
            self._kept_up("adapter", lambda: self._adapter.run(self._handler)),
            self._note_let_in(),
            self._kept_up("delivery", self._dispatcher.run),
            self._kept_up("indicators", self._typing.run),
            self._kept_up("promises", self._deferred_replies.run),
            *((self._kept_up("streams", self._streams.run),) if self._streams is not None else ()),
            *((self._kept_up("menu", self._menu.run),) if self._menu is not None else ()),
            *((self._kept_up("deletions", self._deletions.run),) if self._deletions is not None else ()),
            *((self._kept_up("fetching", self._attachments.run),) if self._attachments is not None else ()),
            self.report(),
        )

    async def _note_let_in(self) -> None:
        await self._adapter.until_ready()
        self._was_let_in = True
        await asyncio.Event().wait()  # it stays true

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
                except TrivetError:
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
