"""Looks before the start: addresses out of Redis URLs, sentences for what is not there."""

from __future__ import annotations

import pytest

from gateway.config import masked_url
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.preflight import check_port_free, check_redis_answers, free_port, http_get, redis_addresses


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("redis://localhost", [("localhost", 6379)]),
        ("rediss://user:p@ss@cache.example:6380/1", [("cache.example", 6380)]),
        ("redis://[::1]:7000", [("::1", 7000)]),
        ("unix:///run/a%20b/redis.sock", ["/run/a b/redis.sock"]),
        ("redis+sentinel://a:1,b/mymaster", [("a", 1), ("b", 26379)]),
        ("redis+cluster://:hush@a:1,b:2", [("a", 1), ("b", 2)]),
    ],
)
def test_where_the_servers_of_a_url_listen(url: str, addresses: list[object]) -> None:
    assert redis_addresses(url) == addresses


async def test_a_server_that_answers_is_fine(valkey_url: str) -> None:
    await check_redis_answers(valkey_url, valkey_url)


@pytest.mark.parametrize("url", ["redis://:hush@127.0.0.1:1", "unix:///nowhere/s.sock"])
async def test_a_server_that_does_not_answer_is_told_with_the_remedy(url: str) -> None:
    with pytest.raises(BusUnavailable, match="cannot be reached") as caught:
        await check_redis_answers(url, masked_url(url))
    assert "hush" not in str(caught.value)
    assert "leave redis.url empty" in str(caught.value)


def test_an_address_that_is_not_ours_cannot_be_listened_on() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:1 .* set http\.port"):
        check_port_free("192.0.2.1", 1, "http.port")


async def test_nobody_answers_on_a_free_port() -> None:
    assert await http_get("127.0.0.1", free_port(), "/healthz") is None
