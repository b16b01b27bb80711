"""However the bytes of Redis' answers are cut on their way, the answers are the same, each once, in order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from gateway.bus.server import ServerConnection

texts = st.binary(max_size=12) | st.sampled_from([b"\r\n", b"*2\r\n", b"$-1\r\n", b":1\r\n", b"-ERR\r\n"])
leaves = st.none() | st.integers(-(2**63), 2**63 - 1) | texts
answers = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=12) | st.just(ResponseError("no"))


def encoded(answer: Any) -> bytes:
    """As the server sends it."""
    match answer:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % answer
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(answer), answer)
        case list():
            return b"*%d\r\n" % len(answer) + b"".join(map(encoded, answer))
    return b"-ERR no\r\n"


class Deaf:
    """A transport that sends nothing anywhere."""

    def write(self, data: bytes) -> None:
        """Take it."""

    def abort(self) -> None:
        """Close."""


@given(expected=st.lists(answers, min_size=1, max_size=6), cuts=st.sets(st.integers(0, 400)))
def test_any_cut_of_the_replies_gives_the_same_answers(expected: list[Any], cuts: set[int]) -> None:
    asyncio.run(feed(expected, sorted(cuts)))


async def feed(expected: list[Any], cuts: list[int]) -> None:
    found: list[Any] = []
    connection = ServerConnection(cast(asyncio.Transport, Deaf()), patience_s=60, forget=lambda: None)
    connection.listen(found.extend, lambda error: found.append(error))
    connection.write(b"", len(expected))
    data = b"".join(map(encoded, expected))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        connection.data_received(data[start:end])
    connection.data_received(data[cuts[-1] :] if cuts and cuts[-1] > len(data) else b"")
    connection.close()
    assert [str(one) if isinstance(one, Exception) else one for one in found] == [
        str(one) if isinstance(one, Exception) else one for one in expected
    ]
