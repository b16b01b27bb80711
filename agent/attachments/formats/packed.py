"""Formats that are packed: what is small on its way may be huge when it is unpacked."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZipFile

from agent.limits import UNPACKED_BYTES_MAX


def opened(content: bytes) -> BytesIO:
    """The document, to be read. Raises `ValueError` for one that says of itself that it is too large; one that lies
    about it is stopped by the clock."""
    with ZipFile(BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED_BYTES_MAX:
            raise ValueError("too large to be unpacked")
    return BytesIO(content)
