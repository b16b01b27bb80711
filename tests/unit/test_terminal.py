"""`trivet chat` on a terminal: an answer is shown while it grows, and printed once."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from channels.core.adapter import SupportsChoices, SupportsStreaming
from channels.terminal.__main__ import ADDRESS, TerminalAdapter
from gateway.clock import SystemClock


class Screen(io.StringIO):
    """A terminal that keeps all that was ever written to it."""

    def isatty(self) -> bool:
        return True


def adapter_on(stdout: io.StringIO) -> TerminalAdapter:
    return TerminalAdapter(io.StringIO(), stdout, cast(Any, None), cast(Any, None), SystemClock())


async def test_an_answer_grows_and_is_printed_whole_where_it_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    adapter = adapter_on(screen)
    assert isinstance(adapter, SupportsStreaming)
    assert isinstance(adapter, SupportsChoices)
    assert adapter.cadence(ADDRESS) is not None
    assert await adapter.begin_stream(ADDRESS, "one", send_id="r1") == ""
    assert await adapter.go_on(ADDRESS, "one *two*", message_id="", send_id="r1")
    grown = screen.getvalue()
    assert "two" in grown
    assert "*two*" not in grown
    assert "\x1b[?25l" not in grown.rpartition("\x1b[?25h")[2], "the cursor is there meanwhile"
    await adapter.send(ADDRESS, "one *two* three", send_id="r1", plain=False)
    printed = screen.getvalue().removeprefix(grown)
    assert printed.index("\x1b[2K") < printed.index("three"), "what grew is wiped before"
    assert printed.endswith("you> ")


async def test_more_than_a_screen_grows_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "10")
    screen = Screen()
    adapter = adapter_on(screen)
    await adapter.begin_stream(ADDRESS, "\n".join(f"- line {number}" for number in range(50)), send_id="r1")
    assert "line 49" in screen.getvalue()
    assert "line 1\n" not in screen.getvalue()
    await adapter.end_stream(ADDRESS, message_id="")
    shown = screen.getvalue()
    await adapter.go_on(ADDRESS, "late", message_id="", send_id="r1")
    assert screen.getvalue() == shown


async def test_a_pipe_gets_whole_answers_as_they_are() -> None:
    pipe = io.StringIO()
    adapter = adapter_on(pipe)
    assert adapter.cadence(ADDRESS) is None
    await adapter.send(ADDRESS, "one *two*", send_id="r1", plain=False)
    assert pipe.getvalue() == "one *two*\n"
