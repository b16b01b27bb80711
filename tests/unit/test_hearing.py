"""An answer is scrubbed in pieces of a size, and reads as if it had been scrubbed whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import SCRUBBED_AT_ONCE_CHARS
from agent.models.requests import CleanStream
from gateway.contracts.messages import CleanText
from gateway.scrub import Scrubber
from gateway.scrub.scrubber import StreamScrubber

SCRUBBER = Scrubber().for_chat("telegram:1")
SECRET = "ghp_" + "Ab3dE5gH1jK2mN4pQ6rS8tU0vW2xY4zA6bC8"


@given(st.lists(st.integers(1, 60), min_size=1), st.sets(st.integers(0, 40)))
def test_looks_at_any_moment_change_nothing(sizes: list[int], looks: set[int]) -> None:
    said = f"The token is {SECRET}, keep it. " * 3
    heard, at = CleanStream(SCRUBBER), 0
    for index, size in enumerate(sizes):
        heard.add(said[at : at + size])
        at += size
        if index in looks:
            shown = heard.so_far()
            assert SECRET[:12] not in shown
            assert SCRUBBER.scrub(said).startswith(shown)
    heard.add(said[at:])
    assert heard.to_the_end() == SCRUBBER.scrub(said)


def test_what_nobody_looks_at_is_scrubbed_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a long answer has no more work in it than a page."""
    feed, pieces = StreamScrubber.feed, list[int]()

    def noted(stream: StreamScrubber, chunk: str) -> CleanText:
        pieces.append(len(chunk))
        return feed(stream, chunk)

    monkeypatch.setattr(StreamScrubber, "feed", noted)
    heard = CleanStream(SCRUBBER)
    for _ in range(2 * SCRUBBED_AT_ONCE_CHARS):
        heard.add("a ")
    assert pieces == [SCRUBBED_AT_ONCE_CHARS] * 4
    assert heard.to_the_end() == "a " * 2 * SCRUBBED_AT_ONCE_CHARS
    assert pieces == [SCRUBBED_AT_ONCE_CHARS] * 4


def test_a_stream_that_starts_again_leaves_nothing_of_its_first_try() -> None:
    heard = CleanStream(SCRUBBER)
    heard.add("first")
    assert heard.so_far() == SCRUBBER.scrub("first") or heard.so_far() == ""
    heard.begin_anew()
    heard.add("second")
    assert heard.to_the_end() == "second"
