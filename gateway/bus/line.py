"""One connection whose commands reach Redis in the order they were called, and travel together.

A pooled client may let two commands of one task overtake each other, which would break the order of
a conversation. Here every call joins a queue; whatever has gathered while the last write was under
way goes out as one pipeline. A broken connection is mended and the pipeline repeated for
`BUS_RETRY_FOR_S`: every script of the bus may be repeated, by its digests, fences and entry ids.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import AskError, ConnectionError, MovedError, NoScriptError, RedisError, ResponseError

from gateway.bus.address import Node
from gateway.bus.connection import is_passing, translated
from gateway.bus.scripts import Script, all_scripts
from gateway.bus.way import Way
from gateway.contracts.errors import BusUnavailable
from gateway.limits import BUS_BATCH_MAX, BUS_RETRY_FOR_S, REPLICA_WAIT_S

Word: TypeAlias = str | bytes | int | float
Command: TypeAlias = tuple[Word, ...]

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5


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


class Line:
    """The ordered line of one role. Every method raises `BusUnavailable` when Redis stays away."""

    def __init__(self, way: Way, where: str, *, copies: Copies | None = None) -> None:
        self._way = way
        self._where = where
        self._copies = copies
        self._waiting: deque[_Call] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """Run one script; its raw answer."""
        return await self._join(self.command(script, keys, arguments))

    @staticmethod
    def command(script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Command:
        """A script as a command, for `call_all`."""
        return ("EVALSHA", script.sha, len(keys), *keys, *arguments)

    async def call(self, *command: Word) -> Any:
        """Send one command; its answer. A caller that is cancelled does not take its command back."""
        return await self._join(command)

    async def call_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send several independent commands in one write; their answers in order."""
        return list(await asyncio.gather(*[self._join(command) for command in commands]))

    async def close(self) -> None:
        """Finish what was called, then hang up."""
        self._is_closed = True
        if self._writer is not None:
            await asyncio.wait({self._writer})
        await self._way.close()

    def _join(self, command: Command) -> asyncio.Future[Any]:
        if self._is_closed:
            raise BusUnavailable(f"the connection to Redis at {self._where} is closed")
        call = _Call(command, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="bus-line")
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
                fresh = await self._pipeline(await self._way.client(), [commands[index] for index in open_calls])
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
                await self._way.lost()

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
        await self._pipeline(await self._way.client(), [("SCRIPT LOAD", script.text) for script in all_scripts()])

    async def _ask_elsewhere(self, commands: Sequence[Command], answers: list[Any]) -> None:
        """Commands whose slot is just moving are for once asked of the server it moves to."""
        for index, answer in enumerate(answers):
            if isinstance(answer, AskError) and not isinstance(answer, MovedError):
                guest = self._way.guest(Node(answer.host, int(answer.port)))
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
