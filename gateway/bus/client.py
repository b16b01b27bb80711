"""Connections to Redis, and what its errors mean to us.

A `PipelinedConnection` sends its commands in the order they were called, and together. A pooled client may let two
commands of one task overtake each other, which would break the order of a conversation. Here every call joins a
queue; whatever has gathered while the last write was under way goes out as one pipeline. A broken connection is
mended and the pipeline repeated for `BUS_RETRY_FOR_S`: every script of the bus may be repeated, by its digests,
fences and entry ids.

A `Pool` is for what may block or needs a connection of its own: waits, stream reads, transactions, subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.sentinel import MasterNotFoundError
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

from gateway.bus.cluster import NodeResolver
from gateway.bus.scripts import Command, ScriptCall, Word, all_scripts
from gateway.bus.server import ServerNode
from gateway.contracts.errors import BusError, BusUnavailable, ConfigError
from gateway.limits import BUS_BATCH_MAX, BUS_RETRY_FOR_S, REPLICA_WAIT_S

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
_NOTICED_WITHIN_S: Final = 0.02  # a cancellation that is not forgotten ends a call at once
_ELSEWHERE: Final = (MovedError, ConnectionError, ReadOnlyError, ClusterDownError, OSError)
"""Errors after which another server may have taken over."""

T = TypeVar("T")


class Refused(BusError):
    """Redis understood a command and would not do it. `code` is the first word of its answer, as `NOGROUP`."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def _unwrapped(error: Exception) -> Exception:
    """redis-py hides what a server on a unix socket refused us for in a plain `ConnectionError`."""
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


def translated(error: Exception, where: str) -> BusError | ConfigError:
    """What a redis error means: `BusUnavailable` to try again, `ConfigError` for the operator, `BusError` else."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return ConfigError(f"Redis at {where} refused us: check user, password and rights in redis.url")
    if isinstance(error, MasterNotFoundError):
        return BusUnavailable(f"the Sentinels at {where} name no primary: start it, or correct redis.url")
    if isinstance(error, MovedError):
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
    that every pipeline ends with a write of its own: what came before it is copied before it.
    """

    replicas: int
    mark: str

    def commands(self) -> tuple[Command, ...]:
        """What goes out behind the commands to be copied."""
        wait_ms = int(REPLICA_WAIT_S * 1000)
        return ("HSET", self.mark, "copied", 1), ("WAIT", self.replicas, wait_ms)


class _TooFewCopies(ConnectionError):
    """As after a lost connection nobody may rely on what was written; the same calls are made again."""


@dataclass(slots=True)
class _Call:
    command: Command
    answer: asyncio.Future[Any]


class PipelinedConnection:
    """An ordered connection of one role. Every method raises `BusUnavailable` when Redis stays away."""

    def __init__(self, resolver: NodeResolver, where: str, *, copies: Copies | None = None) -> None:
        self._resolver = resolver
        self._where = where
        self._copies = copies
        self._waiting: deque[_Call] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run_script(self, call: ScriptCall) -> Any:
        """Run one script; return its raw answer."""
        return await self._join(call.command)

    async def call(self, *command: Word) -> Any:
        """Send one command; its answer. A caller that is cancelled does not take its command back."""
        return await self._join(command)

    async def call_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send several independent commands in one write; their answers in order."""
        return list(await asyncio.gather(*[self._join(command) for command in commands]))

    async def close(self) -> None:
        """Finish what was called, and take no more calls."""
        self._is_closed = True
        if self._writer is not None:
            await asyncio.wait({self._writer})

    def _join(self, command: Command) -> asyncio.Future[Any]:
        if self._is_closed:
            raise BusUnavailable(f"the connection to Redis at {self._where} is closed")
        call = _Call(command, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="bus-pipeline")
        return call.answer

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BUS_BATCH_MAX))]
                await self._settle(batch)
        finally:
            self._writer = None
            self._give_up()

    async def _settle(self, batch: Sequence[_Call]) -> None:
        """Answer every call of the batch, with a failure if it must be."""
        try:
            answers = await self._deliver([call.command for call in batch])
        except asyncio.CancelledError:
            for call in batch:
                _answer(call, BusUnavailable(f"the connection to Redis at {self._where} was closed"))
            raise
        except (RedisError, OSError) as error:
            answers = [error] * len(batch)
        for call, answer in zip(batch, answers, strict=True):
            _answer(call, translated(answer, self._where) if isinstance(answer, Exception) else answer)

    async def _deliver(self, commands: Sequence[Command]) -> list[Any]:
        """The answers, in order; those the server refuses for good are exceptions among them."""
        loop = asyncio.get_running_loop()
        give_up_at, pause_s = loop.time() + BUS_RETRY_FOR_S, _FIRST_PAUSE_S
        answers: list[Any] = [None] * len(commands)
        open_calls = list(range(len(commands)))
        while True:
            try:
                fresh = await self._pipeline(await self._resolver.client(), [commands[index] for index in open_calls])
                await self._ask_elsewhere([commands[index] for index in open_calls], fresh)
            except (RedisError, OSError) as error:
                if not is_passing(error) or loop.time() >= give_up_at:
                    raise
            else:
                for index, answer in zip(open_calls, fresh, strict=True):
                    answers[index] = answer
                open_calls = [index for index in open_calls if _asks_again(answers[index])]
                if not open_calls or loop.time() >= give_up_at:
                    return answers
                if any(isinstance(answers[index], NoScriptError) for index in open_calls):
                    await self._load_scripts()
                    continue
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            with contextlib.suppress(RedisError, OSError):
                await self._resolver.look_again()

    async def _pipeline(self, client: Redis, commands: Sequence[Command]) -> list[Any]:
        """One write, one answer per command."""
        pipeline = client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        if self._copies is None:
            return list(await pipeline.execute(raise_on_error=False))
        for command in self._copies.commands():
            pipeline.execute_command(*command)
        *answers, _, copied = await pipeline.execute(raise_on_error=False)
        if not isinstance(copied, int) or copied < self._copies.replicas:
            raise _TooFewCopies(f"{copied} of {self._copies.replicas} replicas have it")
        return answers

    async def _load_scripts(self) -> None:
        await self._pipeline(await self._resolver.client(), [("SCRIPT LOAD", script.text) for script in all_scripts()])

    async def _ask_elsewhere(self, commands: Sequence[Command], answers: list[Any]) -> None:
        """Commands whose slot is just moving are for once asked of the server it moves to."""
        for index, answer in enumerate(answers):
            if isinstance(answer, AskError) and not isinstance(answer, MovedError):
                guest = self._resolver.client_of(ServerNode(answer.host, int(answer.port)))
                _, answers[index] = await self._pipeline(guest, [("ASKING",), commands[index]])

    def _give_up(self) -> None:
        """Only a cancelled writer leaves calls behind."""
        while self._waiting:
            _answer(self._waiting.popleft(), BusUnavailable(f"the connection to Redis at {self._where} was closed"))


def _asks_again(answer: Any) -> bool:
    return isinstance(answer, NoScriptError) or (isinstance(answer, ResponseError) and is_passing(answer))


def _answer(call: _Call, answer: Any) -> None:
    if call.answer.done():
        return
    if isinstance(answer, Exception):
        call.answer.set_exception(answer)
    else:
        call.answer.set_result(answer)


async def honest(call: Awaitable[T]) -> T:
    """Await a call into redis-py without losing a cancellation.

    It sends through `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that arrives in
    the moment the sending ends: a process told to stop would go on and block in its next read. So the call has a
    task of its own, which is cancelled until it has noticed.
    """
    calling = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        while not calling.done():
            calling.cancel()
            await asyncio.wait({calling}, timeout=_NOTICED_WITHIN_S)
        if not calling.cancelled():
            calling.exception()  # looked at, or asyncio would complain that nobody did
        raise


class Pool:
    """Each call takes a connection, so calls may overtake each other. Nothing is repeated by itself."""

    def __init__(self, resolver: NodeResolver, where: str) -> None:
        self._resolver = resolver
        self._where = where

    async def call(self, *command: Word) -> Any:
        """Send one command that may block; its answer. Raises what `translated` says."""
        try:
            client = await self._resolver.client()
            return await honest(client.execute_command(*command))  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise await self._understood(error) from error

    async def transaction(self, commands: Sequence[Command]) -> None:
        """Run several commands as a transaction: other clients see all of them or none."""
        try:
            transaction = (await self._resolver.client()).pipeline(transaction=True)
            for command in commands:
                transaction.execute_command(*command)
            await honest(transaction.execute())
        except (RedisError, OSError) as error:
            raise await self._understood(error) from error

    async def subscription(self) -> PubSub:
        """Open a connection for pub/sub; its errors are those of redis."""
        return (await self._resolver.client()).pubsub()

    async def look_again(self) -> None:
        """Find out who serves us, for the next call: the server we knew does not any more."""
        with contextlib.suppress(RedisError, OSError):  # nobody is there to tell who: asked again before the next call
            await self._resolver.look_again()

    async def _understood(self, error: RedisError | OSError) -> Exception:
        if isinstance(error, _ELSEWHERE):
            await self.look_again()
        return translated(error, self._where)
