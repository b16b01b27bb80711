"""What is kept of a session of Discord's gateway."""

from __future__ import annotations

import pytest

from channels.discord.client import PreviousSession, left_session, missed_direct_messages


def test_a_session_survives_on_record() -> None:
    session = PreviousSession("abc", 17, "wss://gateway.example/")
    assert left_session(session.as_text()) == session


@pytest.mark.parametrize("record", [None, "", "{", "[]", '{"id":"abc"}', '{"id":"abc","seq":"x","url":"ws://h"}'])
def test_a_record_that_is_none_is_no_session(record: str | None) -> None:
    assert left_session(record) is None


async def test_a_gateway_that_cannot_be_reached_tells_nothing() -> None:
    """It is only an attempt: a new session begins all the same."""
    assert await missed_direct_messages(PreviousSession("abc", 1, "ws://127.0.0.1:9/"), "token") == []
