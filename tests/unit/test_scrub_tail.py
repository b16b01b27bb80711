"""What must be remembered of a message that ends in the first half of a key."""

from __future__ import annotations

import pytest

from gateway.scrub.tail import open_tail
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=8)
PROJECT_KEY = draw("sk-proj-<base64url:74>T3BlbkFJ<base64url:74>", seed=8)


@pytest.mark.parametrize("chars", range(3, 40))
def test_a_cut_token_is_open_wherever_it_was_cut(chars: int) -> None:
    assert open_tail(f"here it comes: {TOKEN[:chars]}") == TOKEN[:chars]


def test_a_whole_token_is_not_open() -> None:
    assert open_tail(f"here it is: {TOKEN}") == ""


def test_a_token_of_a_kind_that_goes_on_for_long_is_open() -> None:
    assert open_tail(f"first half: {PROJECT_KEY[:100]}") == PROJECT_KEY[:100]


def test_the_tail_is_raw_text() -> None:
    hidden = "\u200b".join(TOKEN[:20])
    assert open_tail(f"see {hidden}") == hidden


@pytest.mark.parametrize(
    "text", ["", " ", "good morning", "please test", "the access", "a key", "it is high", f"{TOKEN[:20]}.", "a ghp_ b"]
)
def test_other_texts_end_in_nothing(text: str) -> None:
    assert open_tail(text) == ""
