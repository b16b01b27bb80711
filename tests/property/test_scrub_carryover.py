"""A value is known by the announcement in the message before it, and no other text is touched."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.messages import CleanText
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from gateway.scrub.scrubber import ENDING_CHARS_MAX, open_ending, scrub_after
from tests.scrubbing import announced_pairs, draw, is_left, natural

SCRUBBER = Scrubber(placeholder_key=b"k" * 32)
TOKEN = draw("ghp_<base62:36>", seed=31)


def second_of(first: str, second: str) -> CleanText:
    """Scrub the second message as it is said after the first."""
    return scrub_after(SCRUBBER, open_ending(first), second)[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("my password is", "hunter2!"),
        ("my API-key is", "f3" * 3 + "a91b2c7d60e4"),
        ("мой пароль", "Kot4nik7"),
        ("密码是", "abc12345X"),
        ("DB_PASSWORD=", "x9!kQm2z"),
        (f"{'a long story. ' * 20}my password is", "hunter2!"),
        ("my password is\n", "  hunter2!"),
        ("my passphrase is", "ember-walrus-cello"),
    ],
)
def test_an_announced_value_goes(first: str, second: str) -> None:
    clean = second_of(first, second)
    assert second.strip() not in clean
    assert PLACEHOLDER.search(clean)


def test_announced_values_of_any_corpus_go() -> None:
    seed = random.SystemRandom().randrange(2**32)
    left = [
        pair
        for pair in announced_pairs(seed, 50)
        if is_left(pair.planted.value, second_of(pair.first, pair.second))
        and not is_left(pair.planted.value, SCRUBBER.scrub(f"{pair.first} {pair.second}"))
    ]
    assert left == [], seed


@pytest.mark.parametrize("said", ["thanks!", "ok", "2 more things", "Can you check it?", "谢谢", "and this is for you"])
def test_who_says_something_after_a_whole_key_is_heard(said: str) -> None:
    assert second_of(f"the key: {TOKEN}", said) == said


@pytest.mark.parametrize("first", ["", "hello", "the password is wrong", f"the key: {TOKEN}", "password reset done"])
def test_these_leave_nothing_open(first: str) -> None:
    assert open_ending(first) == ""


def test_only_a_short_ending_is_kept() -> None:
    assert len(open_ending(f"{'x' * 5_000} my password is")) == ENDING_CHARS_MAX


@given(st.integers(0, 2**32))
def test_talk_without_secrets_is_never_changed(seed: int) -> None:
    first, second = (sample.text for sample in natural(seed, 2))
    assert second_of(first, second) == SCRUBBER.scrub(second)


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_is_said_is_clean_afterwards(first: str, second: str) -> None:
    """Reading it again, alone, finds nothing new."""
    text = second_of(first, second)
    assert SCRUBBER.scrub(text) == text
