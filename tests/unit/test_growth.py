"""What is shown next of a growing answer, and how fast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from channels.core.adapter import StreamCadence
from channels.core.preview import Begin, Change, TakeBack, has_grown, next_step
from channels.core.rate_limit import CALM_CALLS, SLOWNESS_MAX, StreamPace

CHUNKS = st.lists(st.text("ab", min_size=1, max_size=3), max_size=5)
CADENCE = StreamCadence(first_after_s=1.0, every_s=2.0)


@given(st.lists(st.none() | st.text("ab", min_size=1, max_size=3), max_size=5), CHUNKS)
def test_step_by_step_what_is_shown_becomes_what_there_is(shown: list[str | None], chunks: list[str]) -> None:
    """At most one step for each message that there is or shall be; an empty text changes nothing."""
    now = list(shown)
    for _ in range(len(shown) + len(chunks)):
        match next_step(now, chunks):
            case Begin(chunk):
                now.append(chunk)
            case Change(at, chunk):
                now[at] = chunk
            case TakeBack():
                now.pop()
            case None:
                break
    assert now == (chunks or shown)


def test_an_earlier_message_is_put_right_before_another_is_begun() -> None:
    assert next_step(["one"], ["one and", "two"]) == Change(0, "one and")
    assert next_step(["one and"], ["one and", "two"]) == Begin("two")


def test_few_new_letters_are_no_news_but_another_text_is() -> None:
    assert has_grown("", "a", chars_min=20)
    assert not has_grown("", "", chars_min=20)
    assert not has_grown("a" * 10, "a" * 29, chars_min=20)
    assert has_grown("a" * 10, "a" * 30, chars_min=20)
    assert has_grown("a" * 10, "b", chars_min=20)


def test_each_refusal_halves_the_speed_down_to_a_bound() -> None:
    pace = StreamPace()
    assert pace.interval_s(CADENCE) == 2.0
    assert pace.refused().interval_s(CADENCE) == 4.0
    for _ in range(20):
        pace = pace.refused()
    assert pace.slowness == SLOWNESS_MAX


def test_calls_that_go_well_bring_the_speed_back() -> None:
    pace = StreamPace().refused().refused()
    for _ in range(CALM_CALLS):
        pace = pace.taken()
    assert pace.interval_s(CADENCE) == 4.0
    for _ in range(3 * CALM_CALLS):
        pace = pace.taken()
    assert pace.interval_s(CADENCE) == 2.0
