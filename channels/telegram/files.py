"""Files that people sent, from the Bot API: `getFile` names a path, valid for an hour, at which the bytes are.

The address of a file has the token in it, and so has its path on a server that runs with `--local`: neither
appears in a message or an error of ours.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from urllib.parse import quote

from telegram import Bot
from telegram.error import BadRequest, Forbidden

from channels.inbound.downloading import ELSEWHERE, GONE, NOT_FOR_US, download, too_large
from channels.telegram import limits
from channels.telegram.client import Endpoint
from gateway.contracts.errors import FileRefused, SendFailed
from gateway.contracts.ports import FetchedFile

_TOO_BIG: Final = "file is too big"
_NOT_YET: Final = "temporarily unavailable"


class TelegramFiles:
    """The files of one bot. Of those that a server of our own, running with `--local`, keeps beside us, none outside of
    the endpoint's folder is read."""

    def __init__(self, bot: Bot, endpoint: Endpoint) -> None:
        self._bot = bot
        self._files_base = endpoint.files_base
        self._folder = endpoint.local_files
        self._proxy = endpoint.proxy

    async def fetch(self, file_id: str, *, bytes_max: int) -> FetchedFile:
        """Raises `FileRefused`, `SendFailed`, and the SDK's `TelegramError`."""
        path = await self._path(file_id)
        name = path.rpartition("/")[2]
        if path.startswith("/"):
            return FetchedFile(name, "", await asyncio.to_thread(self._read, Path(path), bytes_max))
        found = await download(f"{self._files_base}/{quote(path)}", bytes_max=bytes_max, proxy=self._proxy)
        return FetchedFile(name, found.media_type, found.content)

    async def _path(self, file_id: str) -> str:
        try:
            found = await self._bot.get_file(file_id, read_timeout=limits.FILE_READ_TIMEOUT_S)
        except Forbidden:
            raise FileRefused(NOT_FOR_US) from None
        except BadRequest as error:
            said = error.message.lower()
            if _TOO_BIG in said:
                raise FileRefused(too_large(limits.DOWNLOAD_BYTES_MAX)) from None
            if _NOT_YET in said:
                raise SendFailed("the file is not there yet") from None
            raise FileRefused(GONE) from None
        if not found.file_path:
            raise FileRefused(GONE)
        return found.file_path.removeprefix(f"{self._files_base}/")

    def _read(self, path: Path, bytes_max: int) -> bytes:
        """A file of the server beside us. Links and steps upwards are followed first and judged then."""
        try:
            real = path.resolve(strict=True)
            if self._folder is None or not real.is_relative_to(self._folder.resolve()):
                raise FileRefused(ELSEWHERE)
            with real.open("rb") as file:
                content = file.read(bytes_max + 1)
        except OSError:
            raise FileRefused(GONE) from None
        if len(content) > bytes_max:
            raise FileRefused(too_large(bytes_max))
        return content
