"""What an answer of a Bot API server says of itself, whatever its HTTP status is."""

from __future__ import annotations

import pytest
from telegram.error import NetworkError

from channels.telegram.client import AiohttpRequest, read_answer


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"ok":true,"result":true}', 200),
        (b'{"ok":true,"result":null}', 200),
        (b'{"ok":true,"result":"\xff"}', 200),  # one broken byte holds up no batch
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
    if status is None:
        with pytest.raises(NetworkError, match="not from a Bot API server"):
            read_answer(200, body)
    else:
        assert read_answer(502, body)[0] == status


def test_an_answer_is_parsed_once() -> None:
    _, answer = read_answer(200, b'{"ok":true,"result":[1]}')
    assert AiohttpRequest.parse_json_payload(answer) is answer.said
    assert answer.said["result"] == [1]
