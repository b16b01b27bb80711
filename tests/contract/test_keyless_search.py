"""Web search without a key: the real ddgs, which talks TLS to engines that we play, through a proxy that we play."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ddgs import DDGS
from ddgs.exceptions import DDGSException

from agent.tools.web.keyless import BACKENDS, found
from agent.tools.web.tools import Hit, Keyless
from gateway.contracts.errors import FailureCause, ToolError
from tests.parts.certificates import self_signed

HITS = "".join(
    f'<div class="links_main body"><h2>Result {number}</h2>'
    f'<a href="https://r{number}.example/">about tea {number}</a></div>'
    for number in range(3)
)
HOSTS = {"html.duckduckgo.com", "search.brave.com", "www.mojeek.com", "www.startpage.com"}


@asynccontextmanager
async def proxy(folder: Path, page: str) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that leads every tunnel to an engine which answers `page`; its address, and the hosts asked for."""
    asked: list[str] = []
    tls = self_signed(folder)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition(":")[0]
        asked.append(host)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.start_tls(tls)
        await reader.readuntil(b"\r\n\r\n")
        body = page.encode() if host == "html.duckduckgo.com" else b"<html></html>"
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_what_the_engines_answer_are_hits(tmp_path: Path) -> None:
    async with proxy(tmp_path, f"<html><body>{HITS}</body></html>") as (address, asked):
        client = DDGS(proxy=address, timeout=5, verify=False)
        rows = await asyncio.to_thread(found, client, "tea", 2)
    assert len(rows) == 2
    assert all(row["url"].startswith("https://r") and row["content"].startswith("about tea") for row in rows)
    assert "html.duckduckgo.com" in asked
    assert set(asked) <= HOSTS
    assert len(BACKENDS.split(",")) == len(HOSTS)


async def test_engines_without_a_hit_find_nothing(tmp_path: Path) -> None:
    async with proxy(tmp_path, "<html></html>") as (address, _):
        client = DDGS(proxy=address, timeout=5, verify=False)
        assert await asyncio.to_thread(found, client, "tea", 2) == ()


async def test_engines_that_cannot_be_reached_are_an_error_that_tells_the_model_to_go_on(tmp_path: Path) -> None:
    """Here the proxy's certificate is nobody's: the process ends, and so does the search."""
    async with proxy(tmp_path, HITS) as (address, asked):
        with pytest.raises(DDGSException):
            await asyncio.to_thread(found, DDGS(proxy=address, timeout=5), "tea", 2)
        with pytest.raises(ToolError, match="no search engine answered") as failed:
            await Keyless(address).search("tea", count=2)
    assert failed.value.cause is FailureCause.BUSY
    assert asked


async def test_the_process_is_given_the_query_and_the_count_and_answers_in_json() -> None:
    answers = (
        "import json, sys; "
        'print(json.dumps([{"title": sys.stdin.read(), "url": "https://a.example/", "content": sys.argv[1]}]))'
    )
    hits = await Keyless(program=(sys.executable, "-c", answers)).search("grüner tee", count=3)
    assert hits == (Hit("grüner tee", "https://a.example/", "3"),)
