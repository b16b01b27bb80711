"""Connections to Redis, and what its errors mean to us.

A `PipelinedConnection` sends its commands in the order they were called, and together. A pooled client may let two
commands of one task overtake each other, which would break the order of a conversation. Here every call joins a
queue. A broken connection is mended and what was not answered is sent again, in order, for `BUS_RETRY_FOR_S`: every
script of the bus may be repeated, by its digests, fences and entry ids.

A `Pool` is for what may block or needs a connection of its own: waits, stream reads, transactions, subscriptions."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.sentinel import MasterNotFoundError
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    DataError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from gateway.bus.keys import ShardKeys
from gateway.bus.scripts import Command, ScriptCall, Word
from gateway.bus.server import Server, ServerConnection, ServerNode, close_client, pack, shaped
from gateway.contracts.errors import BusError, BusUnavailable, ConfigError
from gateway.limits import BUS_BATCH_MAX, BUS_RETRY_FOR_S, COMMAND_TIMEOUT_S, REPLICA_WAIT_S

# The owner of each shard now, and the clients of these servers.
#
# One server, or the primary that the Sentinels name, is always the same client: its next connection asks
# anew where it goes. On a Cluster all keys of a shard share one hash slot, so that a shard has one owner. Any node
# tells who it is; we ask when somebody met a server that does not serve the shard (any more), a random node first,
# for one that was cut off from the others goes on telling what was.


_LOOK_AGAIN_S: Final = 0.1  # many connections meet the same failover at once: one look is enough for all


def slot_of(shard: int) -> int:
    """Return the hash slot that every key of the shard is in."""
    return key_slot(ShardKeys(shard).meta.encode())


def owners_in(rows: Sequence[Any], shards: int, asked: ServerNode) -> Mapping[int, ServerNode]:
    """Return shard -> owner, from the answer to CLUSTER SLOTS. A node that does not know its own name is the one
    asked."""
    owners: dict[int, ServerNode] = {}
    for first, last, primary, *_ in rows:
        host = primary[0].decode() if primary[0] else asked.host
        for shard in range(shards):
            if first <= slot_of(shard) <= last:
                owners[shard] = ServerNode(host, int(primary[1]))
    return owners


class Cluster:
    """The map of shards to owners, one per role."""

    def __init__(self, server: Server, *, shards: int) -> None:
        self._server = server
        self._shards = shards
        self._owners: Mapping[int, ServerNode] = {}
        self._looking = asyncio.Lock()
        self._looked_at_s = float("-inf")

    async def owner(self, shard: int) -> ServerNode:
        """Return the owner. Raises `ClusterDownError` while nobody owns it, `ConnectionError` when no node answers."""
        if shard not in self._owners:
            await self.look()
        if shard not in self._owners:
            raise ClusterDownError(f"nobody serves hash slot {slot_of(shard)}")
        return self._owners[shard]

    @property
    def known(self) -> tuple[ServerNode, ...]:
        """Return the owners we have heard of, and the nodes of the URL, in any order."""
        nodes = list({*self._owners.values(), *self._server.address.nodes})
        random.shuffle(nodes)
        return tuple(nodes)

    async def somebody(self) -> ServerNode:
        """Return any server that owns a shard."""
        if not self._owners:
            await self.look()
        return random.choice(list(self._owners.values()))

    async def look(self) -> None:
        """Ask again who owns what, unless somebody has just done so."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at_s < _LOOK_AGAIN_S:
                return
            self._owners = await self._ask_somebody()
            self._looked_at_s = asyncio.get_running_loop().time()

    async def _ask_somebody(self) -> Mapping[int, ServerNode]:
        for node in self.known:
            client = self._server.discovery_client(node)
            try:
                rows = await client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            except (AuthenticationError, NoPermissionError):
                raise
            except (RedisError, OSError):
                continue
            finally:
                await close_client(client)
            if owners := owners_in(rows, self._shards, node):
                return owners
        raise ConnectionError("no node of the Cluster answers")


class NodeClients:
    """One client per node, made when it is first needed. None is the only server where there is no Cluster."""

    def __init__(self, make: Callable[[ServerNode | None], Redis]) -> None:
        self._make = make
        self._clients: dict[ServerNode | None, Redis] = {}
        self._idle: dict[Redis, list[ServerConnection]] = {}

    def of(self, node: ServerNode | None) -> Redis:
        """Return the client of `node`."""
        if node not in self._clients:
            self._clients[node] = self._make(node)
        return self._clients[node]

    async def take(self, client: Redis) -> ServerConnection:
        """Return a connection of `client` that nobody uses, a new one if there is none."""
        idle = self._idle.get(client, [])
        while idle:
            if (connection := idle.pop()).is_open:
                return connection
        return await ServerConnection.to(client)

    def give_back(self, client: Redis, connection: ServerConnection) -> None:
        """Keep a connection that owes nothing for the next who takes one."""
        self._idle.setdefault(client, []).append(connection)

    def hang_up(self) -> None:
        """Close every connection that nobody uses."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    async def close(self) -> None:
        """Close the clients of all nodes."""
        self.hang_up()
        for client in self._clients.values():
            await close_client(client)


class NodeResolver:
    """Leads to the server that serves one shard, or, without a `shard`, to any server of the Cluster: what is published
    at one is heard at all. Shards of one owner share its client. Every method may raise what redis raises."""

    def __init__(self, clients: NodeClients, cluster: Cluster | None = None, shard: int | None = None) -> None:
        self._clients = clients
        self._cluster = cluster
        self._shard = shard
        self._chosen: ServerNode | None = None

    async def client(self) -> Redis:
        """Return the client of the server that serves us now."""
        if self._cluster is None:
            return self._clients.of(None)
        if self._shard is not None:
            return self._clients.of(await self._cluster.owner(self._shard))
        if self._chosen is None:
            self._chosen = await self._cluster.somebody()
        return self._clients.of(self._chosen)

    @asynccontextmanager
    async def lend(self, guest: ServerNode | None = None) -> AsyncIterator[ServerConnection]:
        """Lend a connection to the server that serves us now, or to the one that a slot is just moving to (ASK); a
        connection whose use fails is closed."""
        if guest is None or self._cluster is None:  # one server moves no slots
            client = await self.client()
        else:
            client = self._clients.of(guest)
        connection = await self._clients.take(client)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._clients.give_back(client, connection)

    async def look_again(self) -> None:
        """Find out who serves us: the one we knew does not any more."""
        if self._cluster is None:
            # A primary that became a replica: the next connection goes to its successor.
            self._clients.hang_up()
            await self._clients.of(None).connection_pool.disconnect(inuse_connections=False)
            return
        self._chosen = None
        await self._cluster.look()


def client_of_owner(server: Server, nodes: Sequence[ServerNode], shard: int) -> BlockingRedis:
    """Return, for a thread of its own, the client of the shard's owner now, as the first of `nodes` to answer says.

    Raises what redis raises."""
    for node in nodes:
        client = server.heartbeat_client(node)
        try:
            rows: Any = client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        except (RedisError, OSError):
            client.close()
            continue
        owner = owners_in(rows, shard + 1, node).get(shard)
        if owner == node:
            return client
        client.close()
        if owner is not None:
            return server.heartbeat_client(owner)
    raise ConnectionError("no node of the Cluster answers")


_PASSING: Final = ("MISCONF", "BUSY ", "NOREPLICAS")
"""First words of a server that will serve us again without anybody changing our configuration, where redis-py
has no class for them."""
_PASSING_CLASSES: Final = (
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    AskError,  # and MovedError: somebody else serves the slot
    TryAgainError,
    ClusterDownError,  # and MasterDownError
    OSError,
)
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5
_ASKING: Final = pack(("ASKING",))
_ELSEWHERE: Final = (MovedError, ConnectionError, ReadOnlyError, ClusterDownError, OSError)
"""Errors after which another server may have taken over."""


class Refused(BusError):
    """Redis understood a command and would not do it. `code` is the first word of its answer, as `NOGROUP`."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def _unwrapped(error: Exception) -> Exception:
    """Unwrap an error: redis-py hides what a server on a unix socket refused us for in a plain `ConnectionError`."""
    cause = error.__cause__
    return cause if type(error) is ConnectionError and isinstance(cause, RedisError) else error


def is_passing(error: Exception) -> bool:
    """Tell whether the same command may succeed in a moment, on the same or a new connection."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError):
        return False
    if isinstance(error, _PASSING_CLASSES):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_PASSING)


def translated(error: Exception, where: str, *, has_worked: bool = False) -> BusError | ConfigError:
    """Translate an error of redis: `BusUnavailable` to try again, `ConfigError` for the operator, `BusError` else. A
    login that was refused and `has_worked` before will again: the operator is at work."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        is_waited_for = has_worked and not isinstance(error, NoPermissionError)
        kind = BusUnavailable if is_waited_for else ConfigError
        return kind(f"Redis at {where} refused us: check user, password and rights in redis.url")
    if isinstance(error, MasterNotFoundError):
        return BusUnavailable(f"the Sentinels at {where} name no primary: start it, or correct redis.url")
    if isinstance(error, MovedError) and not where.startswith("redis+cluster:"):
        return ConfigError(f"Redis at {where} is a node of a Cluster: write redis+cluster:// in redis.url")
    if type(error) is RedisError:  # what redis-py says of settings it cannot work with
        return ConfigError(f"redis.url cannot be used for {where}: {_reason(error)}")
    if isinstance(error, OutOfMemoryError):
        return BusUnavailable(
            f"Redis at {where} is full: what is said waits until there is room; raise redis.memory_mb, or its maxmemory"
        )
    if is_passing(error):
        return BusUnavailable(f"Redis at {where} does not answer ({_reason(error)}): start it, or correct redis.url")
    if isinstance(error, DataError | ResponseError):
        return Refused(f"Redis at {where} refused a command: {_reason(error)}", code=str(error).partition(" ")[0])
    return BusUnavailable(f"Redis at {where} failed: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


@dataclass(frozen=True, slots=True)
class Copies:
    """On how many replicas a write must be before it counts as done. `mark` is a key to write for that.

    WAIT looks at the last write of its connection. A repeated command may have nothing left to write, so
    that every batch ends with a write of its own: what came before it is copied before it."""

    replicas: int
    mark: str

    def commands(self) -> tuple[Command, ...]:
        """Return the commands that go out after the commands to be copied."""
        wait_ms = int(REPLICA_WAIT_S * 1000)
        return ("HSET", self.mark, "copied", 1), ("WAIT", self.replicas, wait_ms)


class _TooFewCopies(ConnectionError):
    """As after a lost connection nobody may rely on what was written; the same calls are made again."""


@dataclass(slots=True, eq=False)
class _Call:
    """One command until it is answered. `failure` is what its last attempt ended with, its first that failed did so at
    `failed_at_s`."""

    packed: bytes
    answer: asyncio.Future[Any]
    called_at_s: float
    failure: Exception | None = None
    failed_at_s: float = 0.0

    def fail(self, error: Exception, now_s: float) -> None:
        """Note an attempt that failed."""
        self.failed_at_s = self.failed_at_s if self.failure else now_s
        self.failure = error

    def is_over(self, now_s: float) -> bool:
        """Tell whether it has failed for good: it would fail again, or there is no time left to try."""
        return self.failure is not None and (
            not _asks_again(self.failure)
            or now_s - self.failed_at_s >= BUS_RETRY_FOR_S
            or now_s - self.called_at_s >= COMMAND_TIMEOUT_S
        )


class PipelinedConnection:
    """An ordered connection of one role. Every method raises `BusUnavailable` when Redis stays away.

    A call waits in `_waiting`, then it is on its way in `_sent`, in the order of the calls. Whatever was called in one
    turn of the event loop travels in one write, and no call waits for the answer to another one. When the connection
    ends, all of `_sent` goes back to the front of `_waiting`. A call that the server refuses only for now waits in
    `_refused` until nothing is on its way any more, and goes back likewise: nobody overtakes it from then on. After
    any failure the first call goes out alone, and the others when it was answered."""

    def __init__(self, resolver: NodeResolver, where: str, *, copies: Copies | None = None) -> None:
        self._resolver = resolver
        self._where = where
        self._copies = tuple(pack(command) for command in copies.commands()) if copies else ()
        self._replicas = copies.replicas if copies else 0
        self._waiting: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._refused: list[_Call] = []
        self._early: list[Any] = []  # answers that count only when that of WAIT is there
        self._server: ServerConnection | None = None
        self._is_proven = False  # it answered since something failed
        self._pause_s = _FIRST_PAUSE_S
        self._is_flushing = False
        self._mending: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def run_script(self, call: ScriptCall) -> Any:
        """Run one script; return its raw answer."""
        return await self._join(call.command)

    async def call(self, *command: Word) -> Any:
        """Send one command; its answer. A caller that is cancelled does not take its command back."""
        return shaped(command, await self._join(command))

    async def call_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send several independent commands in one write; their answers in order."""
        answers = await asyncio.gather(*[self._join(command) for command in commands])
        return list(map(shaped, commands, answers))

    async def close(self) -> None:
        """Finish what was called, and take no more calls."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
        self._finish()
        await self._closing

    # --- the way there

    def _join(self, command: Command) -> asyncio.Future[Any]:
        if self._closing is not None:
            raise BusUnavailable(f"the connection to Redis at {self._where} is closed")
        try:
            packed = pack(command)
        except RedisError as error:
            raise translated(error, self._where) from None
        loop = asyncio.get_running_loop()
        call = _Call(packed, loop.create_future(), loop.time())
        self._waiting.append(call)
        if not self._is_flushing:
            self._is_flushing = True
            loop.call_soon(self._flush)
        return call.answer

    def _flush(self) -> None:
        """Send what waits, unless something must be mended or answered first."""
        self._is_flushing = False
        if self._mending is not None or self._refused or (self._copies and self._sent):
            return
        if self._server is None:
            self._mend_soon()
            return
        room = (BUS_BATCH_MAX if self._is_proven else 1) - len(self._sent)
        batch = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        if batch:
            self._sent.extend(batch)
            packed = [*[call.packed for call in batch], *self._copies]
            self._server.write(b"".join(packed), len(packed))

    # --- the way back

    def _take_answers(self, answers: Sequence[Any]) -> None:
        if self._copies:
            self._early += answers
            if len(self._early) < len(self._sent) + len(self._copies):
                return
            *answers, _, copied = self._early
            self._early = []
            if not isinstance(copied, int) or copied < self._replicas:
                self._lose(_TooFewCopies(f"{copied} of {self._replicas} replicas have it"))
                return
        for answer in answers:
            call = self._sent.popleft()
            if isinstance(answer, Exception) and _asks_again(answer):
                call.fail(answer, asyncio.get_running_loop().time())
                self._refused.append(call)
            else:
                self._is_proven, self._pause_s = True, _FIRST_PAUSE_S
                self._settle(call, answer)
        if self._refused and not self._sent:
            self._mend_soon()
        elif self._waiting:
            self._flush()
        self._finish()

    def _settle(self, call: _Call, answer: Any) -> None:
        if call.answer.done():  # its caller was cancelled
            return
        if isinstance(answer, Exception):
            call.answer.set_exception(translated(answer, self._where, has_worked=True))  # `open_bus` has tried it
        else:
            call.answer.set_result(answer)

    def _lose(self, error: Exception) -> None:
        """Begin again with everything that was not answered."""
        now_s = asyncio.get_running_loop().time()
        for call in self._sent:
            call.fail(error, now_s)
        self._refused += self._sent
        self._sent.clear()
        self._hang_up()
        if self._mending is None:  # else it finds that the server has gone
            self._put_back()
            if self._waiting:
                self._mend_soon()

    def _hang_up(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _put_back(self) -> None:
        """Let what was refused or not answered be first in line again, for a new connection."""
        self._hang_up()
        self._waiting.extendleft(reversed(self._refused))
        self._refused.clear()
        self._early.clear()
        self._is_proven = False

    # --- mending

    def _mend_soon(self) -> None:
        if self._mending is None:
            self._mending = asyncio.create_task(self._mend(), name="bus-mending")

    async def _mend(self) -> None:
        """Have a server that can be written to, for as long as somebody waits for one."""
        try:
            await self._ask_elsewhere()
            if self._refused or self._server is None:
                self._put_back()
            while self._server is None and self._expire():
                if self._waiting[0].failure is not None:
                    await self._look_elsewhere()
                await self._connect()
        except asyncio.CancelledError:
            self._put_back()
            for call in self._waiting:
                self._settle(call, ConnectionError("it was closed"))
            self._waiting.clear()
            raise
        finally:
            self._mending = None
            self._finish()
        self._flush()

    async def _connect(self) -> None:
        try:
            self._server = await ServerConnection.to(await self._resolver.client())
        except (RedisError, OSError) as error:
            now_s = asyncio.get_running_loop().time()
            for call in self._waiting:
                call.fail(error, now_s)
        else:
            self._server.listen(self._take_answers, self._lose)

    async def _look_elsewhere(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        with contextlib.suppress(RedisError, OSError):
            await self._resolver.look_again()

    async def _ask_elsewhere(self) -> None:
        """Ask commands whose slot is just moving, for once, of the server it moves to."""
        while self._refused:
            call, error = self._refused[0], self._refused[0].failure
            if not isinstance(error, AskError) or isinstance(error, MovedError):
                return
            try:
                async with self._resolver.lend(ServerNode(error.host, int(error.port))) as guest:
                    _, answer = await exchange(guest, (_ASKING, call.packed))
            except (RedisError, OSError):
                return
            if isinstance(answer, Exception) and _asks_again(answer):
                return
            del self._refused[0]
            self._settle(call, answer)

    def _expire(self) -> bool:
        """Fail the calls whose time is over; tell whether any are left."""
        now_s = asyncio.get_running_loop().time()
        for _ in range(len(self._waiting)):
            call = self._waiting.popleft()
            if call.failure is not None and call.is_over(now_s):
                self._settle(call, call.failure)
            else:
                self._waiting.append(call)
        return bool(self._waiting)

    def _finish(self) -> None:
        """Close when that is wished and nothing is left to do."""
        is_busy = self._waiting or self._sent or self._refused
        if self._closing is not None and not is_busy and not self._closing.done():
            self._hang_up()
            self._closing.set_result(None)


def _asks_again(error: Exception) -> bool:
    return isinstance(error, NoScriptError) or is_passing(error)


async def exchange(connection: ServerConnection, packed: Sequence[bytes]) -> list[Any]:
    """Send packed commands in one write on a connection that nobody else uses; return their answers, errors of the
    server among them. Raises what redis raises when the connection ends."""
    answered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
    answers: list[Any] = []

    def take(more: Sequence[Any]) -> None:
        answers.extend(more)
        if len(answers) == len(packed) and not answered.done():
            answered.set_result(answers)

    def end(error: Exception) -> None:
        if not answered.done():
            answered.set_exception(error)

    connection.listen(take, end)
    connection.write(b"".join(packed), len(packed))
    return await answered


class Pool:
    """Each call takes a connection, so calls may overtake each other. Nothing is repeated by itself."""

    def __init__(self, resolver: NodeResolver, where: str) -> None:
        self._resolver = resolver
        self._where = where

    async def call(self, *command: Word) -> Any:
        """Send one command that may block; its answer. Raises what `translated` says."""
        return (await self.call_all([command]))[0]

    async def call_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one write, each of which runs when the one before it is done; their answers. Raises
        the first error among them. A caller that is cancelled hangs up: what was sent may run or not."""
        try:
            packed = [pack(command) for command in commands]
            async with self._resolver.lend() as connection:
                answers = await exchange(connection, packed)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        except (RedisError, OSError) as error:
            if isinstance(error, _ELSEWHERE):
                await self.look_again()
            raise translated(error, self._where, has_worked=True) from error
        return list(map(shaped, commands, answers))

    async def transaction(self, commands: Sequence[Command]) -> None:
        """Run several commands as a transaction: other clients see all of them or none."""
        *_, results = await self.call_all([("MULTI",), *commands, ("EXEC",)])
        for result in results:
            if isinstance(result, Exception):
                raise translated(result, self._where)

    async def subscription(self) -> PubSub:
        """Open a connection for pub/sub; its errors are those of redis."""
        return (await self._resolver.client()).pubsub()

    async def look_again(self) -> None:
        """Find out who serves us, for the next call: the server we knew does not any more."""
        with contextlib.suppress(RedisError, OSError):  # nobody is there to tell who: asked again before the next call
            await self._resolver.look_again()
