"""Downloads of what people sent: never more than was asked for, never for ever, and what proves who we are goes to
nobody but the host it is meant for. No error and no log line of ours names an address: it may hold a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp

from channels.proxies import goes_direct, is_loopback
from gateway.contracts.errors import FileRefused, SendFailed
from gateway.words import sentence

GONE: Final = sentence("it is no longer there")
NOT_FOR_US: Final = sentence("I am not allowed to read it")
ELSEWHERE: Final = sentence("it is kept somewhere else, where I do not look")
SOMETHING_ELSE: Final = sentence("something else was handed out in its place")
"""Why a file cannot be had, for people. The agent, who knows their language, says it."""

_DOWNLOAD_TIMEOUT_S: Final = 60.0  # twenty megabytes over a poor line
_SILENCE_S: Final = 15.0  # a body of which nothing more comes
_CONNECT_TIMEOUT_S: Final = 10.0
_REDIRECTS_MAX: Final = 3
_MEGABYTE: Final = 1024 * 1024
_OK: Final = 200
_GONE: Final = frozenset({404, 410})
_FORBIDDEN: Final = frozenset({401, 403})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Downloaded:
    """What came, and what the server calls it (without parameters, lower case)."""

    media_type: str
    content: bytes = field(repr=False)


def too_large(bytes_max: int) -> str:
    """The reason for a file of more than `bytes_max`."""
    return f"it is larger than {max(1, bytes_max // _MEGABYTE)} MB"


async def download(
    url: str, *, bytes_max: int, headers: Mapping[str, str] | None = None, proxy: str = ""
) -> Downloaded:
    """One GET, and what it is redirected to on the same host, by way of `proxy` if there is one. Raises `FileRefused`
    for what will not get better, `SendFailed` for what may."""
    timeout = aiohttp.ClientTimeout(total=_DOWNLOAD_TIMEOUT_S, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_SILENCE_S)
    plain = {"Accept-Encoding": "identity", **(headers or {})}  # packed, a few bytes may unpack to any number
    try:
        async with aiohttp.ClientSession(
            timeout=timeout,
            trust_env=not proxy and not goes_direct(url),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=plain,
        ) as session:
            return await _downloaded(session, url, bytes_max, proxy)
    except (aiohttp.ClientError, OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise SendFailed(f"a download failed ({type(error).__name__})") from None


def belongs_to(url: str, api_base: str) -> bool:
    """Whether an address is on the machine of the API that we were told to use, by the same scheme; all names of this
    one are the same."""
    try:
        there, here = urlsplit(url), urlsplit(api_base)
        host, own = there.hostname or "", here.hostname or ""
    except ValueError:
        return False
    is_there = host == own or (is_loopback(host) and is_loopback(own))
    return bool(host) and there.scheme == here.scheme and is_there


def is_on(url: str, *domains: str) -> bool:
    """Whether an address is on one of these domains, or below one, by https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme == "https" and any(host == domain or host.endswith(f".{domain}") for domain in domains)


async def _downloaded(session: aiohttp.ClientSession, url: str, bytes_max: int, proxy: str) -> Downloaded:
    for _ in range(1 + _REDIRECTS_MAX):
        async with session.get(url, allow_redirects=False, proxy=proxy or None) as answer:
            if answer.status not in _REDIRECTS:
                return await _body(answer, bytes_max)
            target = urljoin(url, answer.headers.get("Location", ""))
        if _origin(target) != _origin(url):
            raise FileRefused(ELSEWHERE)
        url = target
    raise FileRefused(ELSEWHERE)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


async def _body(answer: aiohttp.ClientResponse, bytes_max: int) -> Downloaded:
    _check_status(answer.status)
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FileRefused(SOMETHING_ELSE)
    if (answer.content_length or 0) > bytes_max:
        raise FileRefused(too_large(bytes_max))
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > bytes_max:
            raise FileRefused(too_large(bytes_max))
    return Downloaded(answer.content_type.lower(), bytes(content))


def _check_status(status: int) -> None:
    if status in _FORBIDDEN:
        raise FileRefused(NOT_FOR_US)
    if status in _GONE:
        raise FileRefused(GONE)
    if status != _OK:
        raise SendFailed(f"a download was answered with {status}")
