"""What strangers can do to an HTTP port of ours, over real sockets: little, and nothing to anybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http_guard import HTTP_LIMITS, Guard, HttpLimits, http_served
from gateway.preflight import listen

BYTES_MAX = 100_000
SOON = replace(HTTP_LIMITS, head_s=0.1, body_s=0.1, unread_s=0.1, write_s=0.1)
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Say how long the body is."""
    await PlainTextResponse(str(len(await Request(scope, receive).body())))(scope, receive, send)


async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without a look at the body."""
    await PlainTextResponse("no")(scope, receive, send)


@contextlib.asynccontextmanager
async def served(app: ASGIApp, limits: HttpLimits = HTTP_LIMITS, hosts: tuple[str, ...] = ()) -> AsyncIterator[int]:
    guarded = Guard(app, hosts=hosts, body_bytes_max=BYTES_MAX, limits=limits)
    with listen("127.0.0.1", 0, "http.port") as listener:
        async with http_served(guarded, listener, grace_s=1, limits=limits):
            yield listener.getsockname()[1]


class Caller:
    """One connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, words: bytes) -> None:
        self._writer.write(words)
        await self._writer.drain()

    async def status(self) -> int:
        """The status of the next answer, which is then read whole."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        await self._reader.readexactly(int(fields[b"content-length"]))
        return int(head.split()[1])

    async def is_hung_up(self) -> bool:
        """Wait until the other side ends the connection; whether it did so without a word."""
        try:
            return not await self._reader.read()
        except ConnectionResetError:
            return True

    @property
    def is_over(self) -> bool:
        return self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def calling(port: int, words: bytes = b"") -> AsyncIterator[Caller]:
    caller = Caller(*await asyncio.open_connection("127.0.0.1", port))
    try:
        await caller.say(words)
        yield caller
    finally:
        caller.close()


def post(length: int, body: bytes = b"", *more: str) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


# --- what is waited for


async def test_half_a_head_is_waited_for_until_its_deadline_whoever_adds_to_it() -> None:
    """Also on a connection that is kept for a further request."""
    async with served(echo, SOON) as port:
        async with calling(port, HALF) as silent, calling(port) as mute:
            assert await silent.is_hung_up()
            assert await mute.is_hung_up()
        async with calling(port, WHOLE) as slow:
            assert await slow.status() == 200
            with contextlib.suppress(ConnectionError):
                for byte in HALF + b"y" * 10_000:
                    await slow.say(bytes([byte]))
                    await asyncio.sleep(0.005)
                    if slow.is_over:
                        break
                else:
                    pytest.fail("whoever sends a byte now and then is waited for without an end")


async def test_a_body_that_does_not_come_in_time_is_no_longer_waited_for() -> None:
    async with served(echo, SOON) as port, calling(port, post(10, b"half")) as slow:
        assert await slow.status() == 408


async def test_an_answer_that_nobody_fetches_ends() -> None:
    over = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)
        finally:
            over.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(endless())(scope, receive, send)

    async with served(app, SOON) as port, calling(port, WHOLE):
        await over.wait()


async def test_who_goes_away_in_the_middle_of_a_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    began, over = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        try:
            await echo(scope, receive, send)
        finally:
            over.set()

    async with served(app) as port:
        async with calling(port, post(10, b"half")):
            await began.wait()
        await over.wait()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- bodies


@pytest.mark.parametrize(("size", "status"), [(BYTES_MAX, 200), (BYTES_MAX + 1, 413)])
async def test_a_body_has_a_length(size: int, status: int) -> None:
    """One that says how long it is, and one that does not (chunked)."""

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, size, 10_000):
            yield b"x" * min(10_000, size - begin)

    async with served(echo) as port, httpx.AsyncClient(trust_env=False) as client:
        for content in (b"x" * size, pieces()):
            answer = await client.post(f"http://127.0.0.1:{port}/", content=content)
            assert answer.status_code == status
            if status == 200:
                assert answer.text == str(size)


async def test_a_body_that_is_too_long_is_refused_before_it_comes() -> None:
    async with served(echo) as port, calling(port, post(64 << 20, b"", "Expect: 100-continue")) as caller:
        assert await caller.status() == 413


async def test_who_is_refused_hears_it_first_and_then_is_not_listened_to_for_long() -> None:
    async with served(deaf, SOON) as port, calling(port, post(BYTES_MAX)) as caller:
        assert await caller.status() == 200
        assert await caller.is_hung_up()


async def test_a_connection_goes_on_when_the_body_that_nobody_read_has_passed() -> None:
    async with served(deaf) as port, calling(port, post(BYTES_MAX)) as caller:
        assert await caller.status() == 200
        await caller.say(b"x" * BYTES_MAX + WHOLE)
        assert await caller.status() == 200


async def test_when_too_much_is_held_the_largest_body_that_is_not_whole_is_dropped() -> None:
    async with served(echo, replace(HTTP_LIMITS, bodies_bytes_max=1_000)) as port:
        async with calling(port, post(950, b"x" * 400)) as modest, calling(port, post(950, b"x" * 550)) as greedy:
            async with calling(port, post(400, b"x" * 400)) as genuine:
                assert await genuine.status() == 200
            await greedy.say(b"x" * 400)
            assert await greedy.status() == 503
            await modest.say(b"x" * 550)
            assert await modest.status() == 200
        async with calling(port, post(1_000, b"x" * 1_000)) as later:
            assert await later.status() == 200, "what was held is given back"


# --- how many


async def test_strangers_who_hold_connections_make_room_for_who_says_what_he_wants() -> None:
    limits = replace(HTTP_LIMITS, connections_max=3)
    async with served(echo, limits) as port, contextlib.AsyncExitStack() as stack:
        strangers = [await stack.enter_async_context(calling(port, HALF)) for _ in range(2)]
        strangers.append(await stack.enter_async_context(calling(port, post(10, b"half"))))
        for gone in range(3):
            async with calling(port, WHOLE) as genuine:
                assert await genuine.status() == 200
                assert await strangers[gone].is_hung_up(), "who was waited for longest goes first"
            strangers.append(await stack.enter_async_context(calling(port, HALF)))


async def test_who_waits_for_us_keeps_his_place() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await may_answer.wait()
        await echo(scope, receive, send)

    async with served(app, replace(HTTP_LIMITS, connections_max=1)) as port, calling(port, WHOLE) as waiting:
        await asked.wait()
        for _ in range(3):
            async with calling(port, WHOLE) as late:
                assert await late.is_hung_up()
        may_answer.set()
        assert await waiting.status() == 200


# --- who is asked, and who asks


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8420", 200),
        ("[::1]:8420", 200),
        ("10.1.2.3", 200),
        ("localhost", 200),
        ("LocalHost:8420", 200),
        ("trivet.example.org", 200),
        ("Trivet.Example.ORG.:443", 200),
        ("evil.example", 421),
        ("trivet.example.org.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1", 421),
        (":8420", 421),
        ("", 200),
    ],
)
async def test_only_our_own_names_and_addresses_are_answered(host: str, status: int) -> None:
    """A page of somebody else's, whose name leads to us, has that name."""
    app = Guard(echo, hosts=("trivet.example.org",), body_bytes_max=BYTES_MAX)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        assert (await client.post("/", content=b"{}", headers={"Host": host})).status_code == status


async def test_probes_of_old_load_balancers_name_nobody() -> None:
    async with served(echo) as port, calling(port, b"GET / HTTP/1.0\r\n\r\n") as probe:
        assert await probe.status() == 200
