"""The SDK's `Bot` with its HTTP client, and the bot's address.

The token, which is part of every address, appears in no message of ours: what the HTTP client says is left away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import aiohttp
import httpx
from telegram import Bot, InputFile
from telegram._utils.types import ODVInput
from telegram.error import NetworkError, TimedOut
from telegram.request import BaseRequest, HTTPXRequest, RequestData
from telegram.request._requestparameter import RequestParameter
from telegram.warnings import PTBUserWarning
from yarl import URL

from channels.core.downloads import goes_direct
from channels.core.message import integer, mapping
from channels.telegram import limits

# The object around every answer of a Bot API server. Pure.


class BotApiAnswer(bytes):
    """The body of an answer, with what it says as JSON: the SDK takes the body and asks for the JSON afterwards."""

    said: Any


def status_of(said: Any) -> int | None:
    """Read the status of HTTP that an answer carries in itself: 200, or its `error_code`. None for what is no
    such object."""
    response = mapping(said)
    if response.get("ok") is True:
        return HTTPStatus.OK if "result" in response else None
    code = integer(response.get("error_code")) or 0
    return (code if code >= HTTPStatus.BAD_REQUEST else HTTPStatus.INTERNAL_SERVER_ERROR) if "ok" in response else None


class PageMissing(NetworkError):
    """Raise when a 404 comes in a page: from a proxy, or from a server whose framework does not know the method."""


def read_answer(status: int, body: bytes) -> tuple[int, BotApiAnswer]:
    """Parse an answer, once. The SDK believes the status of HTTP, but the envelope decides, and whether a Bot API
    server wrote one: an HTML page of a proxy between us and the server says nothing of the token. Raises
    `NetworkError`."""
    answer = BotApiAnswer(body)
    try:
        answer.said = json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError):
        answer.said = None
    said = status_of(answer.said)
    if said is None:
        kind = PageMissing if status == HTTPStatus.NOT_FOUND else NetworkError
        raise kind(f"{_phrase(status)} ({status}), and not from a Bot API server")
    return said, answer


def said_in(payload: bytes) -> Any:
    """Return what `read_answer` has parsed."""
    return payload.said if isinstance(payload, BotApiAnswer) else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


@dataclass(frozen=True, slots=True)
class TelegramEndpoint:
    """The address and the token of one bot. `api_base` is the Bot API's address without `/bot`. With a `hook_url`
    Telegram calls us there, otherwise we poll. `local_files` is the folder in which a Bot API server of ours keeps
    the files that people sent; `bots` are other bots that are heard."""

    token: str = field(repr=False)
    api_base: str
    hook_url: str = ""
    proxy: str = field(default="", repr=False)
    local_files: Path | None = None
    bots: frozenset[str] = frozenset()

    @property
    def bot_id(self) -> str:
        """Return the first part of the token, which is no secret."""
        return self.token.partition(":")[0]

    @property
    def account(self) -> str:
        """Return the account, after which cursors, buckets and places are named."""
        return f"telegram:{self.bot_id}"

    @property
    def files_base(self) -> str:
        """Return the beginning of the addresses of files; the token is in it."""
        return f"{self.api_base}/file/bot{self.token}"

    @property
    def proxy_in_use(self) -> str:
        """Return the proxy that calls go through: the chosen one, otherwise what the environment says."""
        if self.proxy or goes_direct(self.api_base):
            return self.proxy
        found = getproxies()
        proxy = found.get(urlsplit(self.api_base).scheme) or found.get("all", "")
        return proxy if "://" in proxy or not proxy else f"http://{proxy}"


class TelegramClient:
    """`bot` makes calls while the client is open."""

    def __init__(self, endpoint: TelegramEndpoint) -> None:
        # Silence httpx, which logs every address, and with it the token, and a warning of the SDK that concerns
        # its other users.
        for name in ("httpx", "httpcore", "telegram"):
            logging.getLogger(name).setLevel(logging.WARNING)
        warnings.filterwarnings("ignore", ".*attribute `retry_after`", PTBUserWarning)
        self._http = http_client(endpoint.proxy_in_use, limits.CONNECTIONS_MAX)
        self.bot = Bot(
            endpoint.token,
            base_url=f"{endpoint.api_base}/bot",
            base_file_url=f"{endpoint.api_base}/file/bot",
            request=self._http,
            get_updates_request=self._http,
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep connections inside the context; it may be entered again."""
        await self._http.initialize()
        try:
            yield
        finally:
            await self._http.shutdown()


async def call(
    bot: Bot,
    method: str,
    parameters: Mapping[str, Any],
    *,
    file: tuple[str, InputFile] | None = None,
    read_timeout_s: float = limits.CALL_TIMEOUT_S,
) -> Any:
    """Call a method past the SDK's objects, which it would make of all that Telegram tells, and cannot where a server
    tells less: parameters and result are JSON, and `file` goes along under its name. What is None is left out. Raises
    the SDK's `TelegramError`, `InvalidToken` where the server does not know the method."""
    said = [RequestParameter(name, value, None) for name, value in parameters.items() if value is not None]
    write_timeout_s = limits.CALL_TIMEOUT_S
    if file is not None:
        name, content = file
        said.append(RequestParameter(name, None, [content]))
        write_timeout_s = limits.UPLOAD_TIMEOUT_S
    return await bot.request.post(
        f"{bot.base_url}/{method}", RequestData(said), read_timeout=read_timeout_s, write_timeout=write_timeout_s
    )


# The two HTTP clients that the SDK may call with. Both raise `NotConnected` if a request surely never left, and the
# SDK's `TimedOut` or `NetworkError` if nobody knows what became of it. The errors of aiohttp and httpx stay inside:
# the address, and with it the token, may be part of their texts.


class NotConnected(NetworkError):
    """Raise when no connection came about, so that the server has nothing of the request."""


def http_client(proxy: str, connections_max: int) -> BaseRequest:
    """Choose the client for a proxy: aiohttp, whose calls cost half as much, knows no SOCKS."""
    if not proxy or proxy.startswith("http://"):
        return AiohttpRequest(proxy, connections_max)
    return HttpxRequest(proxy, connections_max)


_UPLOAD_PIECE_BYTES: Final = 64 * 1024
_WRITTEN_AT_ONCE_BYTES: Final = 32 * 1024  # a transport takes as much without waiting for the server to read
_IDLE_S: Final = 5.0  # a connection that rests for longer may be closed on the way while a request is being written

_NEVER_LEFT: Final = (
    aiohttp.ClientConnectorError,  # the name, the connection, TLS, for the server and for the proxy
    aiohttp.ConnectionTimeoutError,  # likewise, and the wait for a free connection
    aiohttp.ClientHttpProxyError,  # the proxy does not connect us
    aiohttp.InvalidURL,
)
_NEVER_LEFT_BY_HTTPX: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


class AiohttpRequest(BaseRequest):
    """The SDK's HTTP client on aiohttp, directly or through a proxy of HTTP. It needs a running loop to be opened."""

    def __init__(self, proxy: str, connections_max: int) -> None:
        self._proxy = proxy or None
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def read_timeout(self) -> float:
        return limits.CALL_TIMEOUT_S

    async def initialize(self) -> None:
        """Open the client; connections are made as they are needed."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections_max, keepalive_timeout=_IDLE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self.USER_AGENT},
            )

    async def shutdown(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: ODVInput[float] = BaseRequest.DEFAULT_NONE,
        write_timeout: ODVInput[float] = BaseRequest.DEFAULT_NONE,
        connect_timeout: ODVInput[float] = BaseRequest.DEFAULT_NONE,
        pool_timeout: ODVInput[float] = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, BotApiAnswer]:
        """Do the request as the SDK says; return the status that the answer carries in itself, and the answer."""
        if self._session is None:
            raise RuntimeError("the HTTP client is closed")
        connect_s = _seconds(connect_timeout, limits.CONNECT_TIMEOUT_S)
        timeout = aiohttp.ClientTimeout(
            connect=_seconds(pool_timeout, limits.CALL_TIMEOUT_S) + connect_s,
            sock_connect=connect_s,
            sock_read=_seconds(read_timeout, limits.CALL_TIMEOUT_S),
        )
        write_s = _seconds(write_timeout, limits.CALL_TIMEOUT_S)
        media_type, body = encode_request(request_data)
        headers = {"Content-Type": media_type, "Content-Length": str(sum(map(len, body)))}
        is_small = len(body) == 1 and len(body[0]) <= _WRITTEN_AT_ONCE_BYTES
        # Let the loop hear of the connections that the server has closed meanwhile: nobody knows what becomes
        # of a request that is written to one, and aiohttp itself does not look. One round polls, the next one
        # has handled it.
        for _ in range(2):
            await asyncio.sleep(0)
        try:
            async with (
                asyncio.timeout(None) as deadline,
                self._session.request(
                    method,
                    url,
                    data=body[0] if is_small else _pieces(body, deadline, write_s),
                    headers=headers,
                    timeout=timeout,
                    proxy=self._proxy,
                    ssl=self._tls_for(url),
                    allow_redirects=False,
                ) as response,
            ):
                return read_answer(response.status, await response.read())
        except _NEVER_LEFT as error:
            raise NotConnected(type(error).__name__) from None
        except TimeoutError as error:
            raise TimedOut(f"no answer in time ({type(error).__name__})") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(f"cut before an answer came ({type(error).__name__})") from None

    parse_json_payload = staticmethod(said_in)

    def _tls_for(self, url: str) -> ssl.SSLContext | bool:
        """Return the context for an address of https: it trusts whom the SDK's own client trusts."""
        if self._tls is None and url.startswith("https://"):
            self._tls = httpx.create_ssl_context()
        return self._tls or True


class HttpxRequest(HTTPXRequest):
    """The SDK's own HTTP client, through a proxy of SOCKS or https."""

    def __init__(self, proxy: str, connections_max: int) -> None:
        super().__init__(
            connection_pool_size=connections_max,
            read_timeout=limits.CALL_TIMEOUT_S,
            write_timeout=limits.CALL_TIMEOUT_S,
            connect_timeout=limits.CONNECT_TIMEOUT_S,
            pool_timeout=limits.CALL_TIMEOUT_S,
            proxy=proxy or None,
        )

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, BotApiAnswer]:
        """Do the request as `AiohttpRequest` does."""
        try:
            return read_answer(*await super().do_request(*args, **kwargs))
        except NetworkError as error:
            cause = error.__cause__
            if isinstance(cause, _NEVER_LEFT_BY_HTTPX):
                raise NotConnected(type(cause).__name__) from None
            if isinstance(error, TimedOut):
                raise TimedOut(f"no answer in time ({type(cause).__name__})") from None
            if isinstance(cause, httpx.HTTPError):
                raise NetworkError(f"cut before an answer came ({type(cause).__name__})") from None
            raise

    parse_json_payload = staticmethod(said_in)


def _seconds(timeout_s: ODVInput[float], otherwise_s: float) -> float:
    """Return the timeout that a call was given; nothing of ours waits without an end."""
    return timeout_s if isinstance(timeout_s, int | float) else otherwise_s


def encode_request(request_data: RequestData | None) -> tuple[str, list[bytes]]:
    """Encode the parameters of a call: the media type, and the body in pieces. Nested values are texts of JSON; only
    files make a multipart body of it."""
    parameters = request_data.parameters if request_data else {}
    fields = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    if request_data is None or not request_data.contains_files:
        return "application/x-www-form-urlencoded", [URL.build(query=fields).raw_query_string.encode()]
    boundary = secrets.token_hex(16)
    return f"multipart/form-data; boundary={boundary}", [*_parts(boundary, fields, request_data.multipart_data)]


def _parts(boundary: str, fields: Mapping[str, str], files: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of a multipart body, with names written as browsers write them (HTML, "multipart form data")."""
    for name, value in fields.items():
        yield f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    for name, (filename, content, media_type) in files.items():
        shown = filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        disposition = f'Content-Disposition: form-data; name="{name}"; filename="{shown}"'
        yield f"--{boundary}\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\n".encode()
        yield content if isinstance(content, bytes) else content.read()
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


async def _pieces(body: list[bytes], deadline: asyncio.Timeout, write_s: float) -> AsyncIterator[bytes | memoryview]:
    """Yield a large body to be written within `write_s`: aiohttp itself would wait for ever for a server that does not
    read."""
    deadline.reschedule(asyncio.get_running_loop().time() + write_s)
    for part in body:
        view = memoryview(part)
        for start in range(0, len(view), _UPLOAD_PIECE_BYTES):
            yield view[start : start + _UPLOAD_PIECE_BYTES]
    deadline.reschedule(None)
