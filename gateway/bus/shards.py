"""The shards of a bus: one on a single server, CLUSTER_SHARDS of them on a Cluster. The same code asks either.

A shard is a tag in the names of its keys. What belongs to a user is in the shard of its owner, everything else in
that of its name; entry ids that leave this package say which shard's stream they are from."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, TypeVar

from redis import Redis as BlockingRedis

from gateway import limits
from gateway.bus.client import PipelinedConnection, Pool, Refused
from gateway.bus.keys import InstallationNames, ShardKeys, shard_number
from gateway.bus.scripts import LANE_SCRIPTS, Command, ScriptCall, Word, script
from gateway.bus.subscriptions import WakeupSubscription
from gateway.contracts.envelope import Wire, encode
from gateway.contracts.errors import BusError, BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Reply

T = TypeVar("T")
_PROBE_EVERY_S: Final = 0.5
_SEPARATOR: Final = "."  # fit for a path of the operator's API
_WAIT_MIN_S: Final = 0.001  # BLPOP counts in milliseconds and takes zero for "for ever"


@dataclass(frozen=True, slots=True)
class BusCaps:
    """The capacity of the bus, and the work that may run at a time. `user_turns_max`: lanes of one user that run or are
    next, the others are parked; `turns_max`: turns at a time over all processes, 0 for any number."""

    lane_messages_max: int = limits.LANE_MESSAGES_MAX
    queue_messages_max: int = limits.QUEUE_MESSAGES_MAX
    user_turns_max: int = limits.USER_TURNS_MAX
    turns_max: int = limits.TURNS_MAX

    def of_each(self, shards: int) -> BusCaps:
        """Return the caps of one shard among `shards`: those over everybody are divided, rounded up.

        Those of a lane and of a user stay exact, for all lanes of a user share a shard."""
        return replace(
            self, queue_messages_max=-(-self.queue_messages_max // shards), turns_max=-(-self.turns_max // shards)
        )


@dataclass(eq=False, repr=False)
class Shard:
    """One shard: its keys, and connections to its server.

    Messages from people have a connection of their own (`intake`): a long list of replies to publish is never in
    front of a message. `blocking_client` makes a client for a thread."""

    number: int
    names: InstallationNames
    caps: BusCaps
    _: KW_ONLY
    intake: PipelinedConnection
    line: PipelinedConnection
    pool: Pool
    blocking_client: Callable[[], BlockingRedis]

    def __post_init__(self) -> None:
        self.keys = keys = ShardKeys(self.number)
        self._lane_keys = (keys.ready, keys.delay, keys.own, keys.past, keys.user_counts, keys.total, keys.wake)
        self._lane_arguments = (
            keys.mailbox(""),
            keys.parked(""),
            keys.worker_lanes(""),
            keys.cancels(""),
            self.names.news(""),
            self.caps.user_turns_max,
        )

    def call(self, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> ScriptCall:
        """Return a call of the script `name`; one about lanes begins with what all of them share."""
        if name in LANE_SCRIPTS:
            return ScriptCall(script(name), (*self._lane_keys, *keys), (*self._lane_arguments, *arguments))
        return ScriptCall(script(name), tuple(keys), tuple(arguments))

    def met_arguments(self, key: SessionKey, met: Sequence[bytes]) -> tuple[Word, ...]:
        """Return the last arguments of a script that keeps what was found in a lane."""
        return (self.keys.met(str(key)), *met) if met else ()

    async def run_script(self, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> Any:
        """Run the script `name`; return its raw answer."""
        return await self.line.run_script(self.call(name, keys, arguments))

    async def pop(self, key: str, *, wait_s: float) -> bytes | None:
        """Take the first element of a list, waiting up to `wait_s` (at most BUS_WAIT_MAX_S) for one."""
        found = await self.pool.call(*_pop(key, wait_s))
        return None if found is None else bytes(found[1])

    async def run_after_pop(self, key: str, call: ScriptCall, *, wait_s: float) -> Any:
        """Take the first element of a list, waiting for one as `pop` does, and run a script then, found or not; return
        its raw answer. Both travel at once, on a connection of their own, so that no trip lies between them."""
        try:
            _, answer = await self.pool.call_all([_pop(key, wait_s), call.command])
        except Refused:  # such as for a script that nobody has loaded since the server was emptied
            return await self.line.run_script(call)
        return answer


class NotSigned(BusError):
    """An entry id that no shard of this bus gave out."""


class Shards:
    """All shards of the bus of one role. `pubsub` leads to any server: what is published at one is heard at all."""

    def __init__(self, shards: Sequence[Shard], pubsub: Pool, names: InstallationNames) -> None:
        self._shards = tuple(shards)
        self.pubsub = pubsub
        self.names = names
        self.outages = Outages(shards)
        self._wakeups: list[WakeupSubscription] = []

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, number: int) -> Shard:
        return self._shards[number]

    @property
    def first(self) -> Shard:
        """Return the shard of what there is little of."""
        return self._shards[0]

    @property
    def is_one(self) -> bool:
        """Tell whether there is a single server, where a reader may block on a key."""
        return len(self._shards) == 1

    def of(self, key: SessionKey) -> Shard:
        """Return the shard of a lane and of everything its owner has."""
        return self._shards[shard_number(key, len(self._shards))]

    def named(self, name: str) -> Shard:
        """Return the shard of what belongs to no user: any, always the same, so that no server carries all of it."""
        return self._shards[zlib.crc32(name.encode()) % len(self._shards)]

    def sign(self, shard: Shard, entry_id: str) -> str:
        """Return an entry id that says which shard's stream it is from; a single shard's is its own."""
        return entry_id if self.is_one else f"{shard.number}{_SEPARATOR}{entry_id}"

    def signed(self, entry_id: str) -> tuple[Shard, str]:
        """Return the shard of an entry and its own id there. Raises `NotSigned`."""
        if self.is_one:
            return self.first, entry_id
        number, separator, own = entry_id.partition(_SEPARATOR)
        if not separator or not number.isdecimal() or int(number) >= len(self._shards):
            raise NotSigned(f"not an entry of this bus: {entry_id[:40]!r}")
        return self._shards[int(number)], own

    def by_shard(self, entry_ids: Sequence[str]) -> list[tuple[Shard, list[str]]]:
        """Return the shards of these entries, each with their own ids there. Raises `NotSigned`."""
        groups: dict[int, list[str]] = {}
        for signed in entry_ids:
            shard, own = self.signed(signed)
            groups.setdefault(shard.number, []).append(own)
        return [(self._shards[number], group) for number, group in groups.items()]

    async def ask_all(self, ask: Callable[[Shard], Awaitable[T]]) -> list[T]:
        """Ask every shard; raise what the first that fails does."""
        return list(await asyncio.gather(*[ask(shard) for shard in self._shards]))

    async def ask_present(self, ask: Callable[[Shard], Awaitable[Any]]) -> None:
        """Ask every shard; those that are away do not matter unless all of them are."""
        outcomes = await asyncio.gather(*[ask(shard) for shard in self._shards], return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, BusUnavailable) or len(failures) == len(self._shards):
                raise failure

    def wakeups(self, key_of: Callable[[ShardKeys], str]) -> WakeupSubscription:
        """Subscribe to what the scripts say of the key that `key_of` names in each shard."""
        made = WakeupSubscription(self.pubsub, [self.names.news(key_of(shard.keys)) for shard in self._shards])
        self._wakeups.append(made)
        return made

    async def read(
        self, wakeups: WakeupSubscription, look: Callable[[Shard, float], Awaitable[Sequence[T]]], *, wait_s: float
    ) -> Sequence[T]:
        """Return what `look` finds, waiting `wait_s` at most; of several shards that of the first that has something.

        One shard is looked at for as long. Of several, those that got something are looked at without waiting; nothing
        is held while another one is asked, so that a caller who is cancelled loses nothing."""
        if self.is_one:
            return await look(self.first, wait_s)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + min(wait_s, limits.BUS_WAIT_MAX_S)
        if wait_s <= 0:
            wakeups.wake_all()
        while True:
            awake = self.outages.present(wakeups.take())
            random.shuffle(awake)
            while awake:
                number = awake.pop()
                found: Sequence[T] = []
                try:
                    async with self.outages.noted(number):
                        found = await look(self._shards[number], 0)
                except BaseException:  # cancelled: what the look was given waits there
                    wakeups.put_back([number, *awake])
                    raise
                if found:
                    wakeups.put_back([number, *awake])
                    return found
            if loop.time() >= give_up_at:
                return []
            await wakeups.wait(give_up_at - loop.time())

    async def stop_listening(self) -> None:
        """Look for work no more."""
        for wakeups in self._wakeups:
            await wakeups.close()
        await self.outages.close()

    async def close(self) -> None:
        """Finish what was sent."""
        for shard in self._shards:
            await shard.intake.close()
            await shard.line.close()


class Outages:
    """Shards whose server does not answer: a walk over all shards leaves them out until it does.

    One probe per shard asks until it is back."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._probes: dict[int, asyncio.Task[None]] = {}

    def present(self, numbers: set[int]) -> list[int]:
        """Return those shards that are worth asking. Raises `BusUnavailable` when every shard is away."""
        if len(self._probes) == len(self._shards):
            raise BusUnavailable("no server of the Cluster answers")
        return [number for number in numbers if number not in self._probes]

    @asynccontextmanager
    async def noted(self, number: int) -> AsyncIterator[None]:
        """Cut a block short that asks one shard, and note the shard as away, when it does not answer soon.

        Every call of the bus may be cut short: what it took is given again by the next call."""
        try:
            async with asyncio.timeout(limits.SHARD_PATIENCE_S):
                yield
        except (TimeoutError, BusUnavailable):
            self.note(number)

    def note(self, number: int) -> None:
        """Note that the shard did not answer."""
        if number not in self._probes:
            self._probes[number] = asyncio.create_task(self._probe(number), name=f"bus-probe-{number}")

    async def close(self) -> None:
        """Stop asking."""
        for probe in self._probes.values():
            probe.cancel()
        if self._probes:
            await asyncio.wait(self._probes.values())
        self._probes.clear()

    async def _probe(self, number: int) -> None:
        shard = self._shards[number]
        while True:
            try:
                await shard.line.call("EXISTS", shard.keys.total)
            except BusError:
                await asyncio.sleep(_PROBE_EVERY_S)
            else:
                del self._probes[number]
                return


def _pop(key: str, wait_s: float) -> Command:
    return "BLPOP", key, f"{max(_WAIT_MIN_S, min(wait_s, limits.BUS_WAIT_MAX_S)):.3f}"


def bounded(value: Wire) -> bytes:
    """Return the envelope of a value. Raises `BusError` for one that the bus does not carry."""
    envelope = encode(value)
    limit = limits.REPLY_ENVELOPE_BYTES_MAX if isinstance(value, Reply) else limits.ENVELOPE_BYTES_MAX
    if len(envelope) > limit:
        raise BusError(f"an envelope of {len(envelope)} bytes is over the bus's limit of {limit}")
    return envelope
