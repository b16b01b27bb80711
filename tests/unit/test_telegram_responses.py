"""What an answer of a Bot API server says of itself, whatever its HTTP status is."""

from __future__ import annotations

import pytest

from channels.telegram.client import status_in


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"ok":true,"result":true}', 200),
        (b'{"ok":true,"result":null}', 200),
        (b'{"ok":false,"error_code":429,"description":"Too Many Requests"}', 429),
        (b'{"ok":false}', 500),
        (b'{"ok":false,"error_code":200}', 500),
        (b'{"ok":false,"error_code":"409"}', 500),
        (b'{"ok":true}', None),
        (b"{}", None),
        (b"", None),
        (b"null", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b"<html></html>", None),
        (b"[" * 100_000, None),
    ],
)
def test_only_an_envelope_counts(body: bytes, status: int | None) -> None:
    assert status_in(body) == status
