"""A connection to Redis breaks wherever it hurts: every call has its own answer, everything is done, in order.

The server here is a script of its own that speaks as Redis does, so that a test says after which byte it dies.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import hiredis
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from redis.asyncio import Redis

from gateway.bus.client import Copies, NodeClients, NodeResolver, PipelinedConnection, Pool
from gateway.bus.server import Server, ServerNode
from gateway.contracts.errors import BusUnavailable
from gateway.limits import BUS_BATCH_MAX
from tests.parts.waiting import until
from tests.parts.wires import wire_to

SILENT_S: Final = 0.3
_GREETING: Final = {b"CLIENT", b"SCRIPT", b"SELECT"}


@dataclass
class Session:
    """One connection as the server sees it; the first is number 1."""

    number: int
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def cut(self) -> None:
        """Let arrive what was sent, then hang up."""
        await self.writer.drain()
        self.writer.close()


Behaviour = Callable[[Session, int], Awaitable[None]]


class ScriptedServer:
    """Executes `ECHO number` as `behave` says, by default with that number as the answer."""

    def __init__(self) -> None:
        self.behave: Behaviour = answer
        self.executed: list[int] = []
        self.sessions: list[Session] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for session in self.sessions:
                session.writer.close()

    def first_executions(self) -> list[int]:
        return list(dict.fromkeys(self.executed))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(len(self.sessions) + 1, writer)
        self.sessions.append(session)
        commands = hiredis.Reader()
        try:
            while data := await reader.read(65_536):
                commands.feed(data)
                while command := commands.gets():
                    await self._execute(session, command)
        except OSError:
            return
        finally:
            writer.close()

    async def _execute(self, session: Session, command: list[bytes]) -> None:
        if session.writer.is_closing():  # what arrives behind its death, a server never reads
            return
        match command[0]:
            case b"ECHO":
                self.executed.append(int(command[1]))
                await self.behave(session, int(command[1]))
            case b"HSET":
                session.send(b":0\r\n")
            case b"WAIT":
                await self.behave(session, -1)
            case word:
                assert word in _GREETING
                session.send(b"+OK\r\n")


async def answer(session: Session, number: int) -> None:
    session.send(encoded(number))


def encoded(number: int) -> bytes:
    """An answer that is easily cut: a line end inside, lengths of two digits, lists in lists."""
    text = f"{number}\r\n{'x' * 20}".encode()
    return b"*2\r\n:%d\r\n*2\r\n$-1\r\n$%d\r\n%s\r\n" % (number, len(text), text)


def decoded(found: Any) -> int:
    number, (nothing, text) = found
    assert nothing is None
    assert text == f"{number}\r\n{'x' * 20}".encode()
    return int(number)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer().listening() as listening:
        yield listening


def client(url: str, _node: ServerNode | None = None) -> Redis:
    """As `Server.line_client`, less patient with a server that is silent."""
    made = Server.at(url).line_client()
    made.connection_pool.connection_kwargs["socket_timeout"] = SILENT_S
    return made


@asynccontextmanager
async def connected(
    port: int, *, copies: Copies | None = None, url: str = "redis://127.0.0.1:{port}"
) -> AsyncIterator[PipelinedConnection]:
    nodes = NodeClients(partial(client, url.format(port=port)))
    line = PipelinedConnection(NodeResolver(nodes), "a scripted server", copies=copies)
    try:
        yield line
    finally:
        await line.close()
        await nodes.close()


async def echo(line: PipelinedConnection | Pool, number: int) -> int:
    return decoded(await line.call("ECHO", number))


async def all_echo(line: PipelinedConnection, numbers: range) -> list[int]:
    return await asyncio.gather(*[echo(line, number) for number in numbers])


async def test_a_server_killed_in_the_middle_of_a_reply(server: ScriptedServer) -> None:
    """What was answered whole is not done again; everything after it is, in order."""

    async def die_in_the_third(session: Session, number: int) -> None:
        session.send(encoded(number) if session.number > 1 or number < 3 else encoded(number)[:17])
        if session.number == 1 and number == 3:
            await session.cut()

    async with connected(server.port) as line:
        assert await echo(line, 0) == 0
        server.behave = die_in_the_third
        assert await all_echo(line, range(1, 9)) == list(range(1, 9))
    assert server.executed == [0, 1, 2, 3, 3, 4, 5, 6, 7, 8]


async def test_a_server_killed_in_the_middle_of_a_reply_over_tls(tmp_path: Path) -> None:
    async def die_in_the_third(session: Session, number: int) -> None:
        session.send(encoded(number) if session.number > 1 or number < 3 else encoded(number)[:17])
        if session.number == 1 and number == 3:
            await session.cut()

    encrypted = "rediss://127.0.0.1:{port}?ssl_cert_reqs=none&ssl_check_hostname=false"
    async with ScriptedServer().listening(tls=certified(tmp_path)) as server:
        server.behave = die_in_the_third
        async with connected(server.port, url=encrypted) as line:
            assert await all_echo(line, range(1, 9)) == list(range(1, 9))
    assert server.first_executions() == list(range(1, 9))


def certified(folder: Path) -> ssl.SSLContext:
    """What a server with a certificate of its own needs."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    begins = datetime.now(UTC) - timedelta(days=1)
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), 1, begins, begins + timedelta(days=2))
    certificate = unsigned.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    path = folder / "server.pem"
    path.write_bytes(certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_batch_of_which_half_was_executed(server: ScriptedServer) -> None:
    """And of which nobody heard anything: all of it is sent again, in order."""

    async def die_at_five(session: Session, number: int) -> None:
        if session.number > 1:
            session.send(encoded(number))
        elif number == 5:
            await session.cut()

    async with connected(server.port) as line:
        assert await echo(line, 0) == 0
        server.behave = die_at_five
        assert await all_echo(line, range(1, 9)) == list(range(1, 9))
    assert server.executed == [0, 1, 2, 3, 4, 5, *range(1, 9)]


async def test_answers_that_come_late_are_nobodys(server: ScriptedServer) -> None:
    """The server stands still, its connection is given up, and then it answers on it after all."""
    late: list[tuple[Session, int]] = []

    async def stand_still(session: Session, number: int) -> None:
        if session.number == 1 and number:
            late.append((session, number))
            return
        while late:
            old, owed = late.pop(0)
            old.send(encoded(owed + 1000))
        await answer(session, number)

    server.behave = stand_still
    async with connected(server.port) as line:
        assert await echo(line, 0) == 0
        assert await all_echo(line, range(1, 9)) == list(range(1, 9))
        assert await all_echo(line, range(9, 20)) == list(range(9, 20))
    assert len(server.sessions) == 2


@pytest.mark.parametrize("nonsense", [encoded(77), b"?\r\n"], ids=["an answer too many", "no answer at all"])
async def test_a_server_that_talks_nonsense_is_left(server: ScriptedServer, nonsense: bytes) -> None:
    """One answer too many would be given to whoever calls next."""

    async def talk(session: Session, number: int) -> None:
        await answer(session, number)
        if session.number == 1 and number == 2:
            session.send(nonsense)

    server.behave = talk
    async with connected(server.port) as line:
        assert [await echo(line, number) for number in range(3)] == [0, 1, 2]
        await until(lambda: server.sessions[0].writer.is_closing())
        assert await all_echo(line, range(3, 9)) == list(range(3, 9))
    assert server.executed == list(range(9))


@pytest.mark.parametrize("seed", range(12))
async def test_whenever_it_breaks_everybody_has_his_own_answer_and_nobody_overtakes(
    server: ScriptedServer, seed: int
) -> None:
    """The connection breaks after any byte of any reply, again and again; calls come all the while."""
    dice = random.Random(seed)

    async def break_somewhere(session: Session, number: int) -> None:
        if dice.random() < 0.05:
            session.send(encoded(number)[: dice.randrange(len(encoded(number)))])
            await session.cut()
        else:
            session.send(encoded(number))
            if dice.random() < 0.2:
                await asyncio.sleep(0)

    server.behave = break_somewhere
    called: list[asyncio.Task[int]] = []
    async with connected(server.port) as line:
        for number in range(150):
            called.append(asyncio.create_task(echo(line, number)))
            if dice.random() < 0.3:
                await asyncio.sleep(0)
            if dice.random() < 0.05:
                await called[-1]
        assert await asyncio.gather(*called) == list(range(150))
    assert server.first_executions() == list(range(150))


async def test_calls_that_are_refused_for_now_keep_their_order(server: ScriptedServer) -> None:
    """A server that is still loading lets the first in and those after it, never those after it alone."""
    refusals = iter(range(5))

    async def load(session: Session, number: int) -> None:
        if next(refusals, None) is None:
            server.executed.append(number)
            await answer(session, number)
        else:
            session.send(b"-LOADING the dataset is being loaded\r\n")

    async with connected(server.port) as line:
        assert await echo(line, 0) == 0
        server.behave = load
        first = asyncio.create_task(echo(line, 1))
        await until(lambda: 1 in server.executed)
        server.executed.clear()
        others = asyncio.gather(*[echo(line, number) for number in range(2, 6)])
        assert await first == 1
        assert await others == [2, 3, 4, 5]
    done = [number for before, number in zip(server.executed, server.executed[1:], strict=False) if before == number]
    assert list(dict.fromkeys(done)) == [1, 2, 3, 4, 5]


async def test_a_refusal_for_good_is_its_callers_alone(server: ScriptedServer) -> None:
    async def refuse_two(session: Session, number: int) -> None:
        session.send(b"-WRONGTYPE no list\r\n" if number == 2 else encoded(number))

    server.behave = refuse_two
    async with connected(server.port) as line:
        found = await asyncio.gather(*[echo(line, number) for number in range(5)], return_exceptions=True)
    assert [found[index] for index in (0, 1, 3, 4)] == [0, 1, 3, 4]
    assert "WRONGTYPE" in str(found[2])
    assert server.executed == list(range(5))


async def test_who_is_cancelled_does_not_take_the_command_back(server: ScriptedServer) -> None:
    """Not before it was sent, not while it is on its way, not while the connection is mended."""

    async def die_once(session: Session, number: int) -> None:
        if session.number == 1 and number == 3:
            await session.cut()
        else:
            await answer(session, number)

    server.behave = die_once
    async with connected(server.port) as line:
        calling = [asyncio.create_task(echo(line, number)) for number in range(6)]
        await asyncio.sleep(0)
        calling[1].cancel()
        await until(lambda: 3 in server.executed)
        calling[4].cancel()
        found = await asyncio.gather(*calling, return_exceptions=True)
        assert await echo(line, 6) == 6
    assert [found[index] for index in (0, 2, 3, 5)] == [0, 2, 3, 5]
    assert all(isinstance(found[index], asyncio.CancelledError) for index in (1, 4))
    assert server.first_executions() == list(range(7))


async def test_closing_finishes_what_was_called_even_over_an_outage(server: ScriptedServer) -> None:
    async def die_once(session: Session, number: int) -> None:
        if session.number == 1:
            await session.cut()
        else:
            await answer(session, number)

    server.behave = die_once
    async with connected(server.port) as line:
        calling = [asyncio.create_task(echo(line, number)) for number in range(5)]
        await asyncio.sleep(0)
        await line.close()
        assert all(task.done() for task in calling)
        assert await asyncio.gather(*calling) == list(range(5))
        with pytest.raises(BusUnavailable, match="closed"):
            await line.call("ECHO", 6)
    assert server.first_executions() == list(range(5))


async def test_a_server_that_stays_away_is_said_to_be_away_and_found_again(server: ScriptedServer) -> None:
    async with wire_to(("127.0.0.1", server.port)) as wire, connected(wire.port) as line:
        assert await echo(line, 0) == 0
        await wire.cut()
        found = await asyncio.gather(*[echo(line, number) for number in range(1, 5)], return_exceptions=True)
        assert all(isinstance(error, BusUnavailable) for error in found)
        await wire.mend()
        assert await all_echo(line, range(5, 9)) == list(range(5, 9))


async def test_a_half_open_connection_is_noticed(server: ScriptedServer) -> None:
    """What is sent disappears and nobody says so. What was called meanwhile comes first afterwards, in order."""
    async with wire_to(("127.0.0.1", server.port)) as wire, connected(wire.port) as line:
        assert await echo(line, 0) == 0
        wire.half_open()
        calling = asyncio.gather(*[echo(line, number) for number in range(1, 5)])
        await until(lambda: len(server.sessions) > 1)
        await wire.mend()
        later = asyncio.create_task(echo(line, 5))
        assert await calling == [1, 2, 3, 4]
        assert await later == 5
    assert server.first_executions() == [0, 1, 2, 3, 4, 5]


async def test_no_more_travels_at_once_than_one_batch(server: ScriptedServer) -> None:
    """However many call."""
    at_once: list[int] = []
    held: list[tuple[Session, int]] = []

    async def hold(session: Session, number: int) -> None:
        held.append((session, number))
        if number == 0 or number == BUS_BATCH_MAX or number == 2 * BUS_BATCH_MAX:
            at_once.append(len(held))
            while held:
                session.send(encoded(held.pop(0)[1]))

    server.behave = hold
    async with connected(server.port) as line:
        count = 2 * BUS_BATCH_MAX + 1
        assert await all_echo(line, range(count)) == list(range(count))
    assert at_once == [1, BUS_BATCH_MAX, BUS_BATCH_MAX]
    assert server.executed == list(range(count))


async def test_nothing_counts_before_the_replicas_have_it(server: ScriptedServer) -> None:
    """One WAIT a write; while too few have it everything of that write is done again."""
    waits = iter([1, 0, 1])

    async def copy(session: Session, number: int) -> None:
        session.send(b":%d\r\n" % next(waits, 1) if number < 0 else encoded(number))

    server.behave = copy
    async with connected(server.port, copies=Copies(1, "mark")) as line:
        assert await echo(line, 0) == 0
        assert await all_echo(line, range(1, 5)) == [1, 2, 3, 4]
    assert server.executed == [0, 1, 2, 3, 4, 1, 2, 3, 4]


@pytest.fixture
def pool(server: ScriptedServer) -> Iterator[Pool]:
    nodes = NodeClients(partial(client, f"redis://127.0.0.1:{server.port}"))
    yield Pool(NodeResolver(nodes), "a scripted server")
    nodes.hang_up()


async def test_a_call_of_the_pool_that_is_cancelled_leaves_its_answer_to_nobody(
    server: ScriptedServer, pool: Pool
) -> None:
    """Its connection is not used again; the others are."""
    held: list[tuple[Session, int]] = []

    async def hold_one(session: Session, number: int) -> None:
        if number == 1:
            held.append((session, number))
        else:
            await answer(session, number)

    server.behave = hold_one
    assert await echo(pool, 0) == 0
    waiting = asyncio.create_task(echo(pool, 1))
    await until(lambda: bool(held))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held[0][0].send(encoded(1))
    assert [await echo(pool, number) for number in range(2, 5)] == [2, 3, 4]
    assert len(server.sessions) == 2


async def test_the_pool_repeats_nothing_and_goes_on(server: ScriptedServer, pool: Pool) -> None:
    async def die_at_one(session: Session, number: int) -> None:
        if number == 1:
            session.send(encoded(number)[:9])
            await session.cut()
        else:
            await answer(session, number)

    server.behave = die_at_one
    assert await echo(pool, 0) == 0
    with pytest.raises(BusUnavailable):
        await echo(pool, 1)
    assert await echo(pool, 2) == 2
    assert server.executed == [0, 1, 2]


async def test_a_connection_of_the_pool_that_broke_while_nobody_used_it_is_not_used(
    server: ScriptedServer, pool: Pool
) -> None:
    assert await echo(pool, 0) == 0
    server.sessions[0].writer.close()
    for _ in range(20):  # turns of the event loop that both ends share, until the end has travelled
        await asyncio.sleep(0)
    assert await echo(pool, 1) == 1
