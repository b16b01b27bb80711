"""Files of a Bot API server that runs beside us with --local: it names paths, and some of them are for us."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from telegram import Bot

from channels.core.downloads import ELSEWHERE, GONE
from channels.telegram.adapter import TelegramFiles
from channels.telegram.client import TelegramEndpoint
from gateway.config.features import AttachmentSettings
from gateway.contracts.errors import FileRefused
from gateway.limits import ATTACHMENT_BYTES_CEILING


class LocalServer:
    """Its answer to getFile; it is the SDK's bot and its HTTP client in one."""

    base_url = "http://127.0.0.1:1/bot"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.request = self

    async def post(self, url: str, *arguments: Any, **more: Any) -> Any:
        assert url.endswith("/getFile")
        return {"file_id": "id", "file_path": str(self._path)}


def files_at(path: Path, folder: Path | None) -> TelegramFiles:
    return TelegramFiles(
        cast(Bot, LocalServer(path)), TelegramEndpoint("1:SECRET", "http://127.0.0.1:1", local_files=folder)
    )


async def reason(files: TelegramFiles, bytes_max: int = 100) -> str:
    with pytest.raises(FileRefused) as caught:
        await files.fetch("id", bytes_max=bytes_max)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = tmp_path / "server" / "1:SECRET" / "documents"
    kept.mkdir(parents=True)
    (kept / "file_1.txt").write_bytes(b"hello")
    (tmp_path / "outside.txt").write_bytes(b"not for us")
    (kept / "link.txt").symlink_to(tmp_path / "outside.txt")
    return tmp_path / "server"


async def test_what_lies_in_the_servers_folder_is_read(folder: Path) -> None:
    found = await files_at(folder / "1:SECRET/documents/file_1.txt", folder).fetch("id", bytes_max=5)
    assert (found.name, found.content) == ("file_1.txt", b"hello")


@pytest.mark.parametrize(
    "path", ["../outside.txt", "1:SECRET/documents/../../../outside.txt", "1:SECRET/documents/link.txt"]
)
async def test_no_way_leads_out_of_it(folder: Path, path: str) -> None:
    assert await reason(files_at(folder / path, folder)) == ELSEWHERE


async def test_without_a_folder_nothing_on_this_disk_is_read(folder: Path) -> None:
    assert await reason(files_at(folder / "1:SECRET/documents/file_1.txt", None)) == ELSEWHERE


async def test_what_is_gone_or_too_large_is_refused_without_its_path(folder: Path) -> None:
    """In the path is the token."""
    assert await reason(files_at(folder / "1:SECRET/documents/none.txt", folder)) == GONE
    assert await reason(files_at(folder / "1:SECRET/documents/file_1.txt", folder), 4) == "it is larger than 1 MB"


async def test_more_than_telegram_hands_out_is_read_where_the_operator_wants_it(folder: Path) -> None:
    size = 21 * 1024 * 1024
    with (folder / "film.mp4").open("wb") as film:
        film.truncate(size)
    settings = AttachmentSettings(file_bytes_max=ATTACHMENT_BYTES_CEILING)
    found = await files_at(folder / "film.mp4", folder).fetch("id", bytes_max=settings.file_bytes_max)
    assert len(found.content) == size
