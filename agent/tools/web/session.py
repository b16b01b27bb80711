"""HTTP into the internet and nowhere else.

The guard sits where a socket is made: the address is judged there, and it is the address that the socket is
then connected to. No name is resolved twice, so none can point elsewhere in between; and since every hop of a
redirect needs a socket of its own or one that was judged before, every hop is judged."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Final

import aiohttp
from aiohttp import AddrInfoType
from yarl import URL

from agent import limits
from gateway.contracts.errors import FailureCause, ToolError
from gateway.limits import WEB_CONNECT_S
from gateway.public_web import is_on_public_web

_SCHEMES: Final = frozenset({"http", "https"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; Trivet)",
    "Accept": "text/html,application/xhtml+xml,text/*,application/json,application/xml;q=0.9",
    "Accept-Language": "en;q=0.8,*;q=0.5",
}
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_FRAMING: Final = frozenset(
    {"host", "connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class WebPage:
    """An answer: where it came from in the end, and a body of at most WEB_BYTES_MAX. `charset` is the header's
    word, "" if it has none."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    is_cut: bool


class _Refused(OSError):
    """The guard's word. An OSError, so that the other addresses of a name are tried."""


class WebSession:
    """An HTTP client without cookies, proxies and trust in redirects.

    `exempt` are (address, port) pairs that are let through all the same: for calls with a secret, to where the operator
    lets them go, and for tests, which have no internet."""

    def __init__(self, *, exempt: Iterable[tuple[str, int]] = ()) -> None:
        self._exempt = frozenset(exempt)
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=self._socket, limit=32, ttl_dns_cache=0, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=limits.WEB_TIMEOUT_S, sock_connect=WEB_CONNECT_S),
            headers=_HEADERS,
            trust_env=False,
            max_line_size=16_384,
        )

    async def __aenter__(self) -> WebSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def get(self, url: str, *, headers: Mapping[str, str] = _NO_HEADERS) -> WebPage:
        """Fetch a page, at most WEB_REDIRECTS_MAX redirects further; with `headers`, which are for that address and
        no other, none. Raises `ToolError`."""
        try:
            async with asyncio.timeout(limits.WEB_TIMEOUT_S):
                for name, value in headers.items():
                    if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
                        raise ToolError(f"{name[:64]!r} is no header that can be set")
                    if not value.isprintable():
                        raise ToolError(f"the value of {name} has characters that no header takes")
                current = _checked(url)
                for _ in range(limits.WEB_REDIRECTS_MAX + 1):
                    found = await self._hop(current, headers)
                    if isinstance(found, WebPage):
                        return found
                    if headers:
                        raise ToolError(f"it redirects to {found}, where these headers do not go")
                    current = found
        except TimeoutError as error:
            said = f"the page did not come within {limits.WEB_TIMEOUT_S:g} s"
            raise ToolError(said, FailureCause.BUSY) from error
        except _Refused as error:
            raise ToolError(str(error)) from error
        except aiohttp.ClientError as error:
            raise _in_plain_words(error) from error
        raise ToolError(f"more than {limits.WEB_REDIRECTS_MAX} redirects")

    async def _hop(self, url: URL, headers: Mapping[str, str]) -> WebPage | URL:
        """Send one request; return the page, or the URL to which it was redirected."""
        async with self._client.get(url, headers=headers, allow_redirects=False) as answer:
            if answer.status in _REDIRECTS and (target := answer.headers.get("Location")):
                return _checked(_joined(url, target))
            body, is_cut = await read_body(answer)
            return WebPage(str(url), answer.status, answer.content_type, answer.charset or "", body, is_cut)

    def _socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, place = address
        host, port = str(place[0]), int(place[1])
        if (host, port) not in self._exempt and not is_on_public_web(host, port):
            raise _Refused(f"{host} port {port} is not on the public web: only public web pages can be fetched")
        return socket.socket(family, kind, protocol)


async def read_body(answer: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """Read the body up to the limit, and whether it was cut; a compression bomb is not unpacked further than that."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > limits.WEB_BYTES_MAX:
            return bytes(body[: limits.WEB_BYTES_MAX]), True
    return bytes(body), False


def origin(url: str) -> str:
    """Return scheme, host and port of a URL in one spelling; "" for one that cannot be fetched."""
    try:
        return str(_checked(url).origin())
    except ToolError:
        return ""


def _checked(url: str) -> URL:
    """Parse a URL that may be requested. Raises `ToolError`."""
    if len(url) > limits.WEB_URL_CHARS_MAX:
        raise ToolError(f"a URL has at most {limits.WEB_URL_CHARS_MAX} characters")
    try:
        parsed = URL(url.strip())
        port = parsed.port
    except ValueError as error:
        raise ToolError("this is no URL") from error
    if parsed.scheme not in _SCHEMES or not parsed.host:
        raise ToolError("only http and https URLs with a host can be fetched")
    if parsed.user is not None or parsed.password is not None:
        raise ToolError("a URL with a user or a password is not fetched")
    if port is None:
        raise ToolError("this is no URL")
    return parsed.with_fragment(None)


def _joined(url: URL, target: str) -> str:
    try:
        return str(url.join(URL(target)))
    except ValueError as error:
        raise ToolError("the page redirects to something that is no URL") from error


def _in_plain_words(error: aiohttp.ClientError) -> ToolError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _Refused):
            return ToolError(str(cause))
        if isinstance(cause, aiohttp.ClientConnectorDNSError):
            return ToolError("the host's name cannot be resolved")
        cause = getattr(cause, "os_error", None) or cause.__cause__
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return ToolError("the host's certificate is not valid")
    if isinstance(error, aiohttp.InvalidURL):
        return ToolError("this is no URL")
    if isinstance(error, aiohttp.ClientConnectorError):
        return ToolError("the host cannot be reached")
    return ToolError(f"the page cannot be read ({type(error).__name__})")


# From an answer's bytes to text that a model reads: HTML as Markdown, text as it is, nothing else.


_CONVERTER: Final = "agent.tools.web.html"
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_TEXT_ENDINGS: Final = ("+json", "+xml")
_META_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}charset=["']?([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
_SNIFFED_BYTES: Final = 2_048


class PageReader:
    """Makes text of pages, a few at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(limits.WEB_CONVERSIONS_MAX)

    async def text(self, page: WebPage) -> str:
        """Return the text of a page. Raises `ToolError` for a page that is no text, or takes too long to read."""
        kind = page.media_type.lower()
        if kind in _HTML:
            async with self._slots:
                charset = _html_charset(page)
                command = (sys.executable, "-m", _CONVERTER, charset)
                try:
                    text = await output_of(command, page.body, within_s=limits.WEB_CONVERSION_S)
                except TimeoutError as error:
                    raise ToolError("the page is built in such a way that it cannot be read") from error
                if text is None:
                    raise ToolError("the page cannot be read")
                return text.decode(errors="replace")
        if kind.startswith("text/") or kind in _TEXT or kind.endswith(_TEXT_ENDINGS):
            return page.body.decode(_known(page.charset) or "utf-8", errors="replace")
        raise ToolError(f"this is no text but {page.media_type[:80]}: it is not fetched")


def _known(charset: str) -> str | None:
    """Return the charset if Python can decode it."""
    try:
        b"x".decode(charset)
    except (LookupError, ValueError):
        return None
    return charset


def _html_charset(page: WebPage) -> str:
    """Determine the charset of an HTML page: from the header, else from the page itself."""
    if page.charset:
        return _known(page.charset) or "utf-8"
    found = _META_CHARSET.search(page.body[:_SNIFFED_BYTES])
    return (found and _known(found[1].decode("ascii"))) or "utf-8"


async def output_of(command: Sequence[str], given: bytes, *, within_s: float) -> bytes | None:
    """Run a program of ours with an empty environment and return what it writes; None if it fails. Raises
    `TimeoutError`; it is dead afterwards."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        async with asyncio.timeout(within_s):
            written, _ = await process.communicate(given)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return None if process.returncode else written
