"""Exclusive, ordered work on lanes, as the agent role does it.

A lane is absent, ready, parked, delayed or owned, never two of these. Each step from one to the next is one
script; a lease that was lost makes every step an answer that nothing happened. One lease covers all lanes that a
worker owns in a shard."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from gateway.bus import subscriptions
from gateway.bus.keys import HANDLE_SEPARATOR, lane_handle
from gateway.bus.scripts import ScriptCall, Word, digest
from gateway.bus.shards import Shard, Shards, bounded
from gateway.contracts.access import ShownAccess
from gateway.contracts.envelope import decode_as
from gateway.contracts.errors import BadEnvelope, BusError, ConfigError, NewerEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, Reply
from gateway.contracts.ports import Cancel, CancelKind, Claim, ClaimBatch, DeadMessage, Lease, Ownership
from gateway.limits import COMMIT_LANES_MAX, ERROR_CHARS_MAX, NEWER_DELAY_S, RETRY_DELAYS_S, SHARD_PATIENCE_S
from gateway.tasks import BackgroundTasks

_ARRIVAL_DIGITS: Final = 13  # milliseconds in front of each envelope in a mailbox (enqueue.lua)
_KINDS: Final = frozenset(CancelKind)
_Wish: TypeAlias = Callable[..., Coroutine[Any, Any, ClaimBatch]]
_Claiming: TypeAlias = asyncio.Task[ClaimBatch] | asyncio.Task[ClaimBatch | None]
_WORKER: Final = re.compile(r"[^\s|\x00-\x1f]{1,128}")


@dataclass(slots=True)
class _Holding:
    fence: int
    messages: int
    cancelled: CancelKind | None = None

    def takes(self, kind: CancelKind) -> bool:
        """Tell whether this cancel is news: a stop after a restart is, a second one or a restart after a stop is
        not."""
        is_news = self.cancelled is None or (self.cancelled is CancelKind.RESTART and kind is CancelKind.STOP)
        if is_news:
            self.cancelled = kind
        return is_news


class Holdings:
    """Tells a cancel meant for the running turn from one that comes too late or a second time."""

    def __init__(self) -> None:
        self._held: defaultdict[str, dict[str, _Holding]] = defaultdict(dict)
        self._known_fence: dict[str, int] = {}
        self._early: dict[str, set[str]] = {}

    def forget(self, worker: str) -> None:
        """Forget all, because the worker begins anew or leaves."""
        self._held.pop(worker, None)
        self._known_fence.pop(worker, None)
        self._early.pop(worker, None)

    def take(self, worker: str, lane: str, fence: int, messages: int) -> None:
        """Record the answer to a claim."""
        self._held[worker][lane] = _Holding(fence, messages)
        self._known_fence[worker] = max(fence, self.known_fence(worker))

    def drop(self, worker: str, lane: str, fence: int) -> None:
        """Note that a lease ended, by commit, by retry or by being fenced."""
        holding = self._held[worker].get(lane)
        if holding is not None and holding.fence == fence:
            del self._held[worker][lane]

    def lanes(self, worker: str) -> tuple[str, ...]:
        """Return the lanes that the worker holds now."""
        return tuple(self._held[worker])

    def known_fence(self, worker: str) -> int:
        """Return the highest fence the worker has heard of; 0 before its first claim."""
        return self._known_fence.get(worker, 0)

    def messages(self, worker: str, lane: str, fence: int) -> int | None:
        """Return how many messages the lease covers, None when it is over."""
        holding = self._held[worker].get(lane)
        return holding.messages if holding is not None and holding.fence == fence else None

    def grow(self, worker: str, lane: str, fence: int, messages: int) -> None:
        """Note that the lease, if it is not over by now, took more messages in."""
        holding = self._held[worker].get(lane)
        if holding is not None and holding.fence == fence:
            holding.messages += messages

    def cancelled(self, worker: str, cancels: Iterable[str]) -> tuple[Cancel, ...]:
        """Return the running turns that are meant by `cancels` (kind, lane and fence), each once per kind.

        A cancel may overtake the answer of the claim it belongs to: it is kept for the next call."""
        meant: list[Cancel] = []
        early: set[str] = set()
        for word in sorted({*self._early.pop(worker, ()), *cancels}, reverse=True):  # a stop before a restart
            kind, lane, fence = word.split(HANDLE_SEPARATOR)
            if kind not in _KINDS:  # of a newer release, side by side with ours
                continue
            holding = self._held[worker].get(lane)
            if holding is not None and holding.fence == int(fence):
                if holding.takes(CancelKind(kind)):
                    meant.append(Cancel(lane, CancelKind(kind)))
            elif int(fence) > self.known_fence(worker):
                early.add(word)
        if early:
            self._early[worker] = early
        return tuple(meant)


class Leases:
    """The leases of this process's workers in one shard, and how long each surely lasts."""

    def __init__(self, shard: Shard, holdings: Holdings) -> None:
        self._shard = shard
        self._holdings = holdings
        self._ends_s: dict[str, float] = {}
        self._heard: dict[str, tuple[bytes, ...]] = {}

    def end_s(self, worker: str) -> float:
        """Return the monotonic time up to which nobody can have taken the worker's lanes; 0 without a lease."""
        return self._ends_s.get(worker, 0.0)

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes.

        What an earlier worker of this name still owned is handed back as if it had died."""
        if not _WORKER.fullmatch(worker):
            raise BusError(f"not a worker id: {worker[:40]!r} (no spaces, no '|', at most 128 characters)")
        self._forget(worker)
        end_s = time.monotonic() + lease_ttl_s
        await self._shard.run_script("register", (self._shard.keys.workers,), (worker, _ms(lease_ttl_s)))
        self._ends_s[worker] = end_s

    def beat_call(self, worker: str, *, lease_ttl_s: float) -> ScriptCall:
        """Return the next beat: it also says which cancels the last one brought."""
        keys = (self._shard.keys.workers, self._shard.keys.cancels(worker))
        return self._shard.call("beat", keys, (worker, _ms(lease_ttl_s), *self._heard.get(worker, ())))

    def renewed(self, worker: str, answer: Any, *, end_s: float) -> None:
        """Note what the raw answer of a beat says about the lease, in whichever thread."""
        self._ends_s[worker] = 0.0 if answer == -1 else end_s

    def heard(self, worker: str, answer: Any) -> tuple[Cancel, ...] | None:
        """Return the turns to cancel by the raw answer of a beat, None if it says that the lease was lost."""
        if answer == -1:
            return None
        self._heard[worker] = tuple(answer)
        return self._holdings.cancelled(worker, [cancel.decode() for cancel in answer])

    def reap_call(self) -> ScriptCall:
        """Build the call that makes the lanes of dead workers ready again, in front; its answer is how many."""
        return self._shard.call("reap", (self._shard.keys.workers,))

    async def drain(self, worker: str) -> None:
        """Hand every lane of `worker` back at once, without counting a failed run, and forget the worker."""
        self._forget(worker)
        await self._shard.run_script("drain", (self._shard.keys.workers,), (worker,))

    def _forget(self, worker: str) -> None:
        self._ends_s.pop(worker, None)
        self._heard.pop(worker, None)
        self._holdings.forget(worker)


@dataclass(slots=True, eq=False)
class _Commits:
    """Commits of one worker that travel together: what the script is told, and who waits for a verdict."""

    lanes: list[Word] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    verdicts: list[asyncio.Future[int]] = field(default_factory=list)


class _ShardLanes:
    """This process's knowledge of the lanes of one shard, and the claims there."""

    def __init__(self, shard: Shard, background: BackgroundTasks) -> None:
        self.shard = shard
        self.holdings = Holdings()
        self.leases = Leases(shard, self.holdings)
        self.dead_entries: dict[str, bytes] = {}
        self._background = background
        self._claiming: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unsettled: list[Claim] = []
        self._gathering: dict[str, _Commits] = {}

    async def claim(
        self, *, worker: str, lanes_max: int, messages_max: int, attempts_max: int, wait_s: float = 0.0
    ) -> ClaimBatch:
        """Lease lanes of this shard as soon as there may be any, at the latest after `wait_s`."""
        keys = self.shard.keys
        # One at a time: what a claim may give again depends on what the one before was answered.
        async with self._claiming[worker]:
            await self._settle(worker)
            claiming = self.shard.call(
                "claim",
                (keys.workers, keys.fence, keys.dead_letters, keys.untold, keys.access),
                (
                    *(worker, self.holdings.known_fence(worker)),
                    *(lanes_max, messages_max, attempts_max, self.shard.caps.turns_max),
                    keys.met(""),
                ),
            )
            if wait_s > 0:
                answer = await self.shard.run_after_pop(keys.wake, claiming, wait_s=wait_s)
            else:
                answer = await self.shard.line.run_script(claiming)
            if answer == -1:
                return ClaimBatch((), None)
            next_due_ms, rows, dead, mark = answer
            access = ShownAccess(self.shard.number, mark)
            claims: list[Claim] = []
            for row in rows:
                claim, error = _read_claim(worker, row, access)
                if claim.messages:  # up to the first that we cannot read
                    claims.append(claim)
                else:
                    await self._leave(claim, error)
            # Only now: a caller cancelled before this line is given the same lanes by its next claim.
            for claim in claims:
                self.holdings.take(worker, str(claim.key), claim.lease.fence, len(claim.messages))
        return ClaimBatch(
            claims=tuple(claims),
            next_due_s=None if next_due_ms < 0 else next_due_ms / 1000,
            dead=tuple([found for row in dead if (found := await self._dead(row)) is not None]),
        )

    def commit(self, claim: Claim, handled: int, replies: Sequence[Reply], met: Sequence[bytes]) -> Awaitable[int]:
        """Gather the commits of this turn of the event loop into one call; return the verdict on this one."""
        said = [(reply.address.channel, digest(reply.id), bounded(reply)) for reply in replies]
        found = self.shard.met_arguments(claim.key, met)
        worker, verdict = claim.lease.worker, asyncio.get_running_loop().create_future()
        commits = self._gathering.get(worker)
        if commits is None or len(commits.verdicts) == COMMIT_LANES_MAX:
            commits = self._gathering[worker] = _Commits()
            self._background.start(self._send(worker, commits), name="bus-commits")
        commits.lanes += (lane_handle(claim.key), claim.lease.fence, handled, len(said), len(found))
        for words in said:
            commits.streams.append(self.shard.keys.outbound(words[0]))
            commits.words += words
        commits.words += found
        commits.verdicts.append(verdict)
        return verdict

    def run(self, name: str, claim: Claim, *arguments: Word) -> Awaitable[Any]:
        """Run a script about a run; it is told the lane, and by which right."""
        lease = claim.lease
        return self.shard.run_script(name, (), (lane_handle(claim.key), lease.worker, lease.fence, *arguments))

    async def end(self, claim: Claim, verdict: Awaitable[Any]) -> bool:
        """End a run by what gives this verdict: nobody here works for the lane any more, whatever Redis says or does
        not say."""
        try:
            return bool(await verdict)
        except BaseException:
            self._unsettled.append(claim)
            raise
        finally:
            self.holdings.drop(claim.lease.worker, str(claim.key), claim.lease.fence)

    async def wait(self, claim: Claim, delay_s: float, *, is_failure: bool, error: str) -> bool:
        """Give the lane back to wait, in order."""
        delay_ms, reason = int(delay_s * 1000), error[:ERROR_CHARS_MAX]
        return await self.end(claim, self.run("retry_later", claim, delay_ms, int(is_failure), reason))

    async def _send(self, worker: str, commits: _Commits) -> None:
        """Send the commits that have gathered, and give each its verdict."""
        if self._gathering.get(worker) is commits:
            del self._gathering[worker]
        keys = self.shard.keys
        arguments = (keys.published(""), worker, len(commits.verdicts), *commits.lanes, *commits.words)
        try:
            verdicts = await self.shard.run_script("commit", (keys.outbound_channels, *commits.streams), arguments)
        except (BusError, ConfigError) as error:
            verdicts = [error] * len(commits.verdicts)
        for waiting, verdict in zip(commits.verdicts, verdicts, strict=True):
            if waiting.done():  # its caller was cancelled
                continue
            if isinstance(verdict, int):
                waiting.set_result(verdict)
            else:
                waiting.set_exception(verdict)

    async def _dead(self, row: Sequence[bytes]) -> DeadMessage | None:
        """Read a dead message whose author must be told, None if no author can be read."""
        entry, envelope = row
        message = _decoded(envelope)
        if message is None:
            await self.shard.line.call("ZREM", self.shard.keys.untold, entry)
            return None
        self.dead_entries[message.id] = entry
        return DeadMessage(entry.decode(), message)

    async def _leave(self, claim: Claim, error: BadEnvelope | None) -> None:
        """Give back a lane whose first message was withdrawn before we heard of the claim, or cannot be read: then it
        waits, as after a failed run, or for a worker of the newer release that wrote the message."""
        if error is None:
            await self.end(claim, self.run("restart", claim))
        elif isinstance(error, NewerEnvelope):
            await self.wait(claim, NEWER_DELAY_S, is_failure=False, error=str(error))
        else:
            delay_s = RETRY_DELAYS_S[min(claim.attempts, len(RETRY_DELAYS_S) - 1)]
            await self.wait(claim, delay_s, is_failure=True, error=str(error))

    async def _settle(self, worker: str) -> None:
        """Settle runs whose end Redis did not answer: if it did not arrive, the lane is still ours and goes back."""
        for claim in [claim for claim in self._unsettled if claim.lease.worker == worker]:
            await self.run("restart", claim)
            self._unsettled.remove(claim)


class Lanes:
    """Claim, commit and what lies between. Raises `BusUnavailable`; a lost lease is an answer, not an error."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._background = BackgroundTasks()
        self._parts = [_ShardLanes(shard, self._background) for shard in shards]
        self._wakeups = shards.wakeups(lambda keys: keys.wake)
        self._promising: set[int] = set()  # shards whose token we took
        self._turn = random.randrange(len(shards))

    # --- leases of workers

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes. In a shard that does not answer, the first
        beat that it answers finds no lease.

        What an earlier worker of this name still owned is handed back as if it had died."""
        await self._shards.ask_present(lambda shard: self.leases_in(shard).register(worker, lease_ttl_s=lease_ttl_s))

    async def drain(self, worker: str) -> None:
        """Hand every lane of `worker` back at once, without counting a failed run, and forget the worker. Where a shard
        does not answer, the lease ends by itself."""
        await self._shards.ask_present(lambda shard: self.leases_in(shard).drain(worker))

    def leases_in(self, shard: Shard) -> Leases:
        """Return the leases of this process's workers in one shard."""
        return self._parts[shard.number].leases

    def held(self, shard: Shard, worker: str) -> tuple[str, ...]:
        """Return the lanes of a shard that `worker` has claimed and not given back, as far as this process knows."""
        return self._parts[shard.number].holdings.lanes(worker)

    async def cancellations(self, worker: str) -> AsyncIterator[Cancel]:
        """Yield running turns to end, each once, whether this or the beat hears of it first."""
        parts = {self._shards.names.news(part.shard.keys.cancels(worker)): part for part in self._parts}
        async for heard in subscriptions.messages(self._shards.pubsub, *parts):
            for cancel in parts[heard.channel].holdings.cancelled(worker, [heard.data.decode()]):
                yield cancel

    # --- claims

    async def claim(
        self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int, wait_s: float = 0.0
    ) -> ClaimBatch:
        """Lease up to `lanes_max` ready lanes; an empty batch when nothing is ready or the lease is lost.

        It waits up to `wait_s` until a lane may be ready. On one server the claim travels with the wait, and cannot be
        taken back: what it gives to a caller who was cancelled meanwhile is handed back, without counting a failed run.

        A lane that failed runs again whole; on its last try its head runs alone. A message that failed
        `attempts_max` times is in `dead` and in the dead letters, and the rest of its lane goes on; until
        `finish_dead` it is in the `dead` of another claim every DEAD_TOLD_WITHIN_S.

        Of several shards those whose token we took are asked first, then the others in turn, from a random one on, so
        that none starves. A round asks as many at once as lanes are wanted, each for its share; one that gave all it
        was asked for is asked again."""
        wish = partial(_ShardLanes.claim, worker=worker, messages_max=messages_max, attempts_max=attempts_max)
        if self._shards.is_one:
            if wait_s <= 0:
                return await wish(self._parts[0], lanes_max=lanes_max)
            claiming = asyncio.create_task(wish(self._parts[0], lanes_max=lanes_max, wait_s=wait_s))
            try:
                return await asyncio.shield(claiming)
            except asyncio.CancelledError:
                self._background.start(self._hand_back(0, claiming))
                raise
        await self._wait_for_token(wait_s)
        hungry = self._in_turn()
        claims: list[Claim] = []
        due_s: list[float] = []
        dead: list[DeadMessage] = []
        while hungry and len(claims) < lanes_max:
            wanted = lanes_max - len(claims)
            asked, hungry = hungry[:wanted], hungry[wanted:]
            share = wanted // len(asked)
            for number, batch in (await self._ask(asked, wish, share)).items():
                shard = self._shards[number]
                claims += batch.claims
                dead += [replace(each, letter_id=self._shards.sign(shard, each.letter_id)) for each in batch.dead]
                if batch.next_due_s is not None:
                    due_s.append(batch.next_due_s)
                if batch.claims:
                    self._turn = number + 1
                if len(batch.claims) == share:
                    hungry.append(number)
        return ClaimBatch(tuple(claims), min(due_s, default=None), tuple(dead))

    async def finish_dead(self, message: InboundMessage) -> None:
        """Note that the author of a message that a claim found dead was told. Until then, should this worker die, the
        claim of another one finds it again."""
        part = self._part(message.key)
        entry = part.dead_entries.pop(message.id, None)
        if entry is not None:
            await part.shard.line.call("ZREM", part.shard.keys.untold, entry)

    # --- runs

    async def commit(
        self, claim: Claim, *, handled: int, replies: Sequence[Reply] = (), met: Sequence[bytes] = ()
    ) -> bool:
        """Acknowledge the first `handled` messages, publish the replies, and keep the rows of what was `met` in the
        lane, atomically. False: fenced.

        What was claimed and not handled is ready again, in order, at the tail of the ready list."""
        part = self._part(claim.key)
        return await part.end(claim, part.commit(claim, handled, replies, met))

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        """Give the lane back after a failed run; it waits `delay_s`, in order. False: fenced."""
        return await self._part(claim.key).wait(claim, delay_s, is_failure=True, error=error)

    async def restart(self, claim: Claim) -> bool:
        """Give the lane back to start at once, without counting a failed run. False: fenced.

        It is in front RESTARTS_IN_FRONT_MAX times, then at the tail; without messages it is gone."""
        part = self._part(claim.key)
        return await part.end(claim, part.run("restart", claim))

    async def revoke(self, key: SessionKey, fence: int) -> bool:
        """Take the lane from a worker that does not react to a stop; its messages are stopped, and the next claim says
        so. False: the turn with this fence does not own the lane."""
        return bool(await self._shards.of(key).run_script("revoke", arguments=(lane_handle(key), fence)))

    async def extend(self, claim: Claim, *, messages_max: int) -> tuple[InboundMessage, ...]:
        """Return up to `messages_max` messages that arrived after those the lease covers (steer mode), now covered too;
        each is given once."""
        lane, lease, part = str(claim.key), claim.lease, self._part(claim.key)
        have = part.holdings.messages(lease.worker, lane, lease.fence)
        if have is None or messages_max <= 0:
            return ()
        rows = await part.run("extend", claim, have, messages_max)
        messages, _ = _readable_head([row[_ARRIVAL_DIGITS:] for row in rows])
        part.holdings.grow(lease.worker, lane, lease.fence, len(messages))
        return messages

    async def depth(self, key: SessionKey) -> tuple[int, bool]:
        """Return how many messages wait in a lane after those of a running turn, and whether a turn runs."""
        shard, lane = self._shards.of(key), str(key)
        length, owner = await shard.line.call_all([("LLEN", shard.keys.mailbox(lane)), ("HGET", shard.keys.own, lane)])
        in_work = int(owner.rpartition(b"|")[2]) if owner else 0
        return max(0, length - in_work), owner is not None

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        """Tell whether the turn with this fencing token still owns the lane."""
        return (await self.ownership(key, fence)).is_held

    async def ownership(self, key: SessionKey, fence: int) -> Ownership:
        """Return whether the turn with this fencing token still owns the lane, which projection of access is shown, and
        what was found in the lane: one trip."""
        shard, lane = self._shards.of(key), str(key)
        owner, mark, met = await shard.line.call_all(
            [("HGET", shard.keys.own, lane), ("GET", shard.keys.access), ("ZRANGE", shard.keys.met(lane), 0, -1)]
        )
        is_held = owner is not None and int(owner.split(b"|")[-2]) == fence
        return Ownership(is_held, ShownAccess(shard.number, mark or b""), tuple(met))

    async def forget_met(self, key: SessionKey) -> None:
        """Forget what was found in a lane."""
        shard = self._shards.of(key)
        await shard.line.call("DEL", shard.keys.met(str(key)))

    async def stop(self, key: SessionKey) -> None:
        """End the running turn of a lane and drop what waits in it, as /stop does; nobody is told. It returns at once:
        `depth` says when the turn has ended."""
        await self._shards.of(key).run_script("stop", arguments=(lane_handle(key),))

    async def close(self) -> None:
        """Let commits that are still on their way arrive, and claims, and hand those back."""
        await self._background.settle()

    # --- claims over several shards

    def _part(self, key: SessionKey) -> _ShardLanes:
        return self._parts[self._shards.of(key).number]

    async def _wait_for_token(self, wait_s: float) -> None:
        """Wait until a lane may be ready: all idle workers hear that there is a token, one gets it, and only that one
        goes on to claim."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + wait_s
        while loop.time() < give_up_at:
            await self._wakeups.wait(give_up_at - loop.time())
            awake = self._shards.outages.present(self._wakeups.take())
            if any(await asyncio.gather(*[self._take_token(number) for number in awake])):
                return

    async def _ask(self, numbers: Sequence[int], wish: _Wish, share: int) -> dict[int, ClaimBatch]:
        """Return the batches of those that answer soon. A claim is never cancelled: its lanes would be nobody's."""
        asking = {number: asyncio.create_task(self._claim(number, wish, share)) for number in numbers}
        try:
            await asyncio.wait(asking.values(), timeout=SHARD_PATIENCE_S)
        except asyncio.CancelledError:
            for number, task in asking.items():
                self._background.start(self._hand_back(number, task))
            raise
        batches: dict[int, ClaimBatch] = {}
        for number, task in asking.items():
            if not task.done():
                self._shards.outages.note(number)
                self._background.start(self._hand_back(number, task))
            elif (batch := task.result()) is not None:
                batches[number] = batch
        return batches

    async def _claim(self, number: int, wish: _Wish, share: int) -> ClaimBatch | None:
        try:
            return await wish(self._parts[number], lanes_max=share)
        except BusError:
            self._shards.outages.note(number)
            return None

    def _in_turn(self) -> list[int]:
        """List the shards that answer: those whose token we took, then the one after that which gave last, and so
        on."""
        count = len(self._shards)
        order = self._shards.outages.present(set(range(count)))
        order.sort(key=lambda number: (number not in self._promising, (number - self._turn) % count))
        self._promising.clear()
        return order

    async def _take_token(self, number: int) -> bool:
        shard, token = self._shards[number], None
        async with self._shards.outages.noted(number):
            token = await shard.line.call("LPOP", shard.keys.wake)
        if token is not None:
            self._promising.add(number)
        return token is not None

    async def _hand_back(self, number: int, claiming: _Claiming) -> None:
        part = self._parts[number]
        if self._shards.is_one:  # it waits for a token: let it have one
            with suppress(BusError):  # it waits for a second at most
                await part.shard.line.call("RPUSH", part.shard.keys.wake, "1")
        try:
            batch = await claiming
            for claim in batch.claims if batch is not None else ():
                await part.end(claim, part.run("restart", claim))
        except BusError:  # the lease ends by itself
            return


def _read_claim(worker: str, row: Sequence[Any], access: ShownAccess) -> tuple[Claim, BadEnvelope | None]:
    """Return the claim up to the first message that we cannot read, and what is wrong with that one; without messages
    if it is the first of all, or if one was withdrawn."""
    handle, fence, attempts, stopped, rows, met = row
    key = SessionKey.parse(handle.decode().partition(HANDLE_SEPARATOR)[0])
    envelopes = [row[_ARRIVAL_DIGITS:] for row in rows]
    messages, error = _readable_head(envelopes) if all(envelopes) else ((), None)
    lease = Lease(worker, fence)
    return Claim(key, lease, attempts, messages, is_stopped=stopped > 0, access=access, met=tuple(met)), error


def _readable_head(envelopes: Sequence[bytes]) -> tuple[tuple[InboundMessage, ...], BadEnvelope | None]:
    """Return the messages before the first that cannot be read, and what is wrong with that one."""
    messages: list[InboundMessage] = []
    for envelope in envelopes:
        try:
            messages.append(decode_as(InboundMessage, envelope))
        except BadEnvelope as error:
            return tuple(messages), error
    return tuple(messages), None


def _decoded(envelope: bytes) -> InboundMessage | None:
    try:
        return decode_as(InboundMessage, envelope)
    except BadEnvelope:
        return None


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
