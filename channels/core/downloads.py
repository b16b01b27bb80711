"""Downloads of the files that people sent, for the turns that ask for them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin, urlsplit
from urllib.request import proxy_bypass

import aiohttp

from channels.core.adapter import SupportsDownloads
from gateway.bus.files import Files
from gateway.contracts.errors import BusUnavailable, DeliveryError, FileRefused, RateLimited, SendFailed
from gateway.contracts.ports import FetchedFile, WantedAttachment
from gateway.i18n import sentence
from gateway.limits import ATTACHMENT_BEAT_S, ATTACHMENT_FETCH_S, ATTACHMENTS_AT_ONCE, SCRUBBED_FILE_BYTES_MAX
from gateway.scrub import Scrubber
from gateway.scrub.raw_text import is_text
from gateway.scrub.scrubber import without_secrets
from gateway.tasks import Backoff

log = logging.getLogger(__name__)


def goes_direct(url: str) -> bool:
    """Tell whether a URL is called without the proxy: this machine, whatever the environment says, and what NO_PROXY
    names."""
    host = urlsplit(url).hostname or ""
    return is_loopback(host) or bool(proxy_bypass(host))


def is_loopback(host: str) -> bool:
    """Tell whether the host is a name or an address of this machine that stays inside it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# Downloads of files that people sent: never more bytes than asked for, never for ever, and our credentials go only to
# the host they are meant for. No error and no log line of ours names an address: it may hold a token.

GONE: Final = sentence("it is no longer there")
NOT_FOR_US: Final = sentence("I am not allowed to read it")
ELSEWHERE: Final = sentence("it is kept somewhere else, where I do not look")
SOMETHING_ELSE: Final = sentence("something else was handed out in its place")
"""The reason why a file cannot be had, for people. The agent, who knows their language, says it."""

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
    """The bytes that came, and the server's media type for them (without parameters, lower case)."""

    media_type: str
    content: bytes = field(repr=False)


def too_large(bytes_max: int) -> str:
    """Say that a file has more than `bytes_max`."""
    return f"it is larger than {max(1, bytes_max // _MEGABYTE)} MB"


async def download(
    url: str, *, bytes_max: int, headers: Mapping[str, str] | None = None, proxy: str = ""
) -> Downloaded:
    """Download by one GET, following redirects on the same host, through `proxy` if there is one. Raises `FileRefused`
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
    """Tell whether an address is on the machine of the API that we were told to use, by the same scheme; all names of
    this machine count as the same."""
    try:
        there, here = urlsplit(url), urlsplit(api_base)
        host, own = there.hostname or "", here.hostname or ""
    except ValueError:
        return False
    is_there = host == own or (is_loopback(host) and is_loopback(own))
    return bool(host) and there.scheme == here.scheme and is_there


def is_on(url: str, *domains: str) -> bool:
    """Tell whether an address is on one of these domains, or below one, by https."""
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
                status = answer.status
                if status in _FORBIDDEN:
                    raise FileRefused(NOT_FOR_US)
                if status in _GONE:
                    raise FileRefused(GONE)
                if status != _OK:
                    raise SendFailed(f"a download was answered with {status}")
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
            target = urljoin(url, answer.headers.get("Location", ""))
        if _origin(target) != _origin(url):
            raise FileRefused(ELSEWHERE)
        url = target
    raise FileRefused(ELSEWHERE)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


# Hands over the files that turns ask for: fetched from the platform, freed of secrets, lent over the bus.
#
# Text is searched here, so that its secrets never get further than this process. While a file is being fetched the
# asking process is told so, until it has the file or the reason why there is none.

NOT_NOW: Final = sentence("its platform does not hand it out at the moment")
LONG_TEXT: Final = f"it is a text of more than {SCRUBBED_FILE_BYTES_MAX // 1_000_000} MB"
UNSEARCHED: Final = sentence("it could not be looked through for secrets in time")

_WAIT_S: Final = 5.0
_TRIES: Final = 4
_RETRY_FIRST_S: Final = 0.5
_RETRY_CAP_S: Final = 10.0


class AttachmentServer:
    """The files of one channel, ATTACHMENTS_AT_ONCE at a time."""

    def __init__(self, adapter: SupportsDownloads, bus: Files, scrubber: Scrubber, *, delay_scale: float = 1.0) -> None:
        """Shorten the waits of tests by `delay_scale`."""
        self._adapter = adapter
        self._bus = bus
        self._scrubber = scrubber
        self._delay_scale = delay_scale

    async def run(self) -> None:
        """Serve files until cancelled. An adapter that is not connected leaves the wishes to others."""
        async with asyncio.TaskGroup() as group:
            for _ in range(ATTACHMENTS_AT_ONCE):
                group.create_task(self._attend())

    async def _attend(self) -> None:
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        while True:
            await self._adapter.until_ready()
            try:
                await self.serve(wait_s=_WAIT_S)
                backoff.reset()
            except BusUnavailable as error:
                log.warning("%s: no files while the bus is away: %s", self._adapter.name, error)
                await asyncio.sleep(backoff.next_s())

    async def serve(self, *, wait_s: float) -> bool:
        """Answer one wish, if there is one within `wait_s`. Raises `BusUnavailable`."""
        wanted = await self._bus.wanted_attachment(self._adapter.name, wait_s=wait_s)
        if wanted is None:
            return False
        try:
            async with self._at_it(wanted):
                file = await self._fetched(wanted)
        except FileRefused as error:
            log.info("%s: a file cannot be had: %s", self._adapter.name, error)
            await self._bus.refuse_attachment(wanted, reason=str(error))
        else:
            if not await self._bus.put_attachment(wanted, file):
                log.info("%s: nobody takes a file that was asked for", self._adapter.name)
        return True

    @contextlib.asynccontextmanager
    async def _at_it(self, wanted: WantedAttachment) -> AsyncIterator[None]:
        heartbeat = asyncio.create_task(self._beat(wanted), name=f"{self._adapter.name}-at-it")
        try:
            yield
        finally:
            heartbeat.cancel()
            await asyncio.wait([heartbeat])

    async def _beat(self, wanted: WantedAttachment) -> None:
        while True:
            with contextlib.suppress(BusUnavailable):
                await self._bus.note_fetching(wanted)
            await asyncio.sleep(ATTACHMENT_BEAT_S)

    async def _fetched(self, wanted: WantedAttachment) -> FetchedFile:
        """Fetch the file in the form in which it may leave this process. Raises `FileRefused`."""
        try:
            async with asyncio.timeout(ATTACHMENT_FETCH_S):
                file = await self._downloaded(wanted)
        except TimeoutError:
            raise FileRefused(NOT_NOW) from None
        scrubber = self._scrubber.for_chat(str(wanted.key))
        content = await _clean(file.content, scrubber)
        return FetchedFile(scrubber.scrub(file.name), scrubber.scrub(file.media_type), content)

    async def _downloaded(self, wanted: WantedAttachment) -> FetchedFile:
        """Download the file; a download changes nothing, so it is tried again after any outcome."""
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        for _ in range(_TRIES):
            try:
                return await self._adapter.fetch(wanted.reference, bytes_max=wanted.bytes_max)
            except FileRefused:
                raise
            except DeliveryError as error:
                log.info("%s: a file is not to be had yet: %s", self._adapter.name, error)
                wait_s = error.retry_after_s if isinstance(error, RateLimited) else backoff.next_s()
            except Exception as error:  # noqa: BLE001 - named boundary, adapter callback; its text may hold an address
                log.warning("%s: fetching a file failed: %s", self._adapter.name, type(error).__name__)
                wait_s = backoff.next_s()
            await asyncio.sleep(wait_s * self._delay_scale)
        raise FileRefused(NOT_NOW)


async def _clean(content: bytes, scrubber: Scrubber) -> bytes:
    """Remove secrets from a file that is text: no other format can be searched."""
    if not is_text(content):
        return content
    if len(content) > SCRUBBED_FILE_BYTES_MAX:
        raise FileRefused(LONG_TEXT)
    clean = await without_secrets(content, scrubber)
    if clean is None:
        raise FileRefused(UNSEARCHED)
    return clean
